/// Where a store is.
enum StorePlace {
    /// A folder, or nil for this user's store.
    case folder(String?)
    case cluster(ClusterAddress)

    /// Reads what --store and LOCKBOX_STORE name: the address of a cluster, or a folder.
    init(_ text: String) throws {
        if let address = try ClusterAddress(text) {
            self = .cluster(address)
        } else {
            // Probably an unset variable. The store would be created in the current folder.
            if text.isEmpty { throw Failure(.usage, "--store is empty. Give an address, or leave it out.") }
            if text.contains("://") {
                throw Failure(
                    .usage,
                    "\(text.onOneLine) is no store. The address of a cluster begins with etcd:// or etcd+plaintext://."
                )
            }
            self = .folder(text)
        }
    }
}
