/// The address of a store: a folder, or a cluster.
enum StoreAddress {
    /// A folder, or nil for this user's store.
    case folder(String?)
    case cluster(ClusterAddress)

    /// Reads what --store and LOCKBOX_STORE name: the address of a cluster, or a folder.
    init(_ text: String) throws {
        if let address = try ClusterAddress(text) {
            self = .cluster(address)
        } else {
            // Probably an unset variable. The store would be created in the current folder.
            if text.isEmpty {
                throw Failure(.usage, "The address of a store is empty. Give one, or leave the option out.")
            }
            if text.contains("://") {
                throw Failure(
                    .usage,
                    "\(text.onOneLine) is not a store's address. A cluster's address begins with etcd:// or "
                        + "etcd+plaintext://."
                )
            }
            self = .folder(text)
        }
    }
}
