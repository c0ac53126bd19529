//! The list of the kinds of small objects. A new kind is a line here, an implementation of
//! [`SmallObject`](crate::SmallObject) beside its type, and a migration that creates its object table.

/// Calls a macro with all kinds of small objects, a line for each, after the tokens that follow the name of the macro.
///
/// A line consists of the object's name and the name of the object table, the name of the table of the state, the two
/// [changes](crate::change::Change), and the type. The names of the changes are in the log.
#[macro_export]
macro_rules! for_each_small_object {
    ($then:ident $($first:tt)*) => {
        $then! {
            $($first)*
            node_pool, node_pools: NodePools { NodePool, NodePoolDeleted } of $crate::cluster::NodePool;
            namespace, namespaces: Namespaces { Namespace, NamespaceDeleted } of $crate::cluster::Namespace;
            root_key, root_keys: RootKeys { RootKey, RootKeyDeleted } of $crate::keyring::RootKey;
            host_volume, host_volumes: HostVolumes { HostVolume, HostVolumeDeleted } of $crate::volume::HostVolume;
            csi_volume, csi_volumes: CsiVolumes { CsiVolume, CsiVolumeDeleted } of $crate::volume::CsiVolume;
            volume_claim, volume_claims: VolumeClaims { VolumeClaim, VolumeClaimDeleted }
                of $crate::volume::VolumeClaim;
            service_registration, service_registrations:
                ServiceRegistrations { ServiceRegistration, ServiceRegistrationDeleted }
                of $crate::service::ServiceRegistration;
        }
    };
}
