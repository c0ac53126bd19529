//! The private keys that the cluster signs with.

use model::RootKeyId;

use crate::scene::{SECOND, Scene, taken};

const fn id(number: u8) -> RootKeyId {
    RootKeyId::from_bytes([number; 16])
}

#[tokio::test]
async fn keys_that_no_public_half_belongs_to_are_removed() {
    let scene = Scene::new().await;
    let mut superuser = scene.superuser().await;
    for number in 1..=3 {
        scene.writer.store_root_key(id(number), &[number]).await.unwrap();
    }
    // Without any public half, the first key may be about to be committed.
    assert_eq!(scene.writer.remove_other_root_keys(&[]).await.unwrap(), 0);
    assert_eq!(scene.writer.remove_other_root_keys(&[id(2), id(9)]).await.unwrap(), 2);
    assert_eq!(superuser.query("select get_byte(secret, 0)::bigint from root_key_secrets").await, 2);
    assert_eq!(superuser.query("select count(*) from root_key_secrets").await, 1);
}

#[tokio::test]
async fn a_deposed_applier_removes_no_keys() {
    let scene = Scene::new().await;
    let second = scene.another().await;
    scene.writer.store_root_key(id(1), &[1]).await.unwrap();
    taken(second.take_lease(SECOND, true).await.unwrap());
    second.store_root_key(id(2), &[2]).await.unwrap();
    assert_eq!(scene.writer.remove_other_root_keys(&[id(1)]).await.unwrap(), 0);
    assert_eq!(second.remove_other_root_keys(&[id(2)]).await.unwrap(), 1);
}
