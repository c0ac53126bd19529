//! Conversion of the scheduler configuration, node pools and namespaces.

use super::public;
use crate::cluster::{
    Namespace, NodePool, NodePoolScheduler, Preemption, SchedulerAlgorithm, SchedulerConfig,
};
use crate::mirror::{mirror, passthrough, text_members};

passthrough!(api_types::NamespaceCapabilities);
text_members!(SchedulerAlgorithm);
public!(SchedulerConfig = SchedulerConfiguration, NodePool = NodePool, Namespace = Namespace);

mirror! {
    SchedulerConfig = SchedulerConfiguration {
        reject_job_registration: "RejectJobRegistration",
        pause_eval_broker: "PauseEvalBroker",
        create_index: "CreateIndex",
        modify_index: "ModifyIndex",
    }
    renamed {
        algorithm = scheduler_algorithm: "SchedulerAlgorithm",
        preemption = preemption_config: "PreemptionConfig",
        memory_oversubscription = memory_oversubscription_enabled: "MemoryOversubscriptionEnabled",
        node_limit = node_limit_for_feasibility_checks: "NodeLimitForFeasibilityChecks",
    }
}

mirror! {
    Preemption = PreemptionConfig {}
    renamed {
        system = system_scheduler_enabled: "SystemSchedulerEnabled",
        sysbatch = sys_batch_scheduler_enabled: "SysBatchSchedulerEnabled",
        batch = batch_scheduler_enabled: "BatchSchedulerEnabled",
        service = service_scheduler_enabled: "ServiceSchedulerEnabled",
    }
}

mirror! {
    NodePool = NodePool {
        name: "Name",
        description: "Description",
        meta: "Meta",
        create_index: "CreateIndex",
        modify_index: "ModifyIndex",
    }
    renamed {
        scheduler = scheduler_configuration: "SchedulerConfiguration",
        identity_ttl = node_identity_ttl: "NodeIdentityTTL",
    }
    ignored { hash = None }
}

mirror! {
    NodePoolScheduler = NodePoolSchedulerConfiguration {}
    renamed {
        algorithm = scheduler_algorithm: "SchedulerAlgorithm",
        memory_oversubscription = memory_oversubscription_enabled: "MemoryOversubscriptionEnabled",
    }
}

// Quotas and the configuration of pools, Vault and Consul are not part of the domain (`docs/rules/http-api.md` §19).
mirror! {
    Namespace = Namespace {
        name: "Name",
        description: "Description",
        meta: "Meta",
        capabilities: "Capabilities",
        create_index: "CreateIndex",
        modify_index: "ModifyIndex",
    }
    ignored {
        quota = Some(String::new()),
        node_pool_configuration = None,
        vault_configuration = None,
        consul_configuration = None,
        hash = None,
        required_extra_claims = None,
        optional_extra_claims = None,
    }
}
