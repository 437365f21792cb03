// Stores and finds a secret, encrypted between client and service and not, and prints it if both work.
use secret_service::{EncryptionType, SecretService};
use std::collections::HashMap;

fn main() {
    for kind in [EncryptionType::Dh, EncryptionType::Plain] {
        let service = SecretService::new(kind).unwrap();
        let collection = service.get_default_collection().unwrap();
        let attributes = HashMap::from([("service", "rust")]);
        collection.create_item("label", attributes, b"hunter2", true, "text/plain").unwrap();
        let found = service.search_items(vec![("service", "rust")]).unwrap();
        assert_eq!(found[0].get_secret().unwrap(), b"hunter2");
        assert_eq!(found[0].get_label().unwrap(), "label");
        found[0].delete().unwrap();
    }
    println!("hunter2");
}
