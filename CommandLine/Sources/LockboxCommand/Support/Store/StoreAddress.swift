/// The address of a store: a folder, or a cluster.
enum StoreAddress {
    /// A folder, or nil for this user's store.
    case folder(String?)
    case cluster(ClusterAddress)

    /// Reads what --store and LOCKBOX_STORE name: the address of a cluster, or a folder as an absolute path, or one that begins
    /// with `~/`, `./` or `../`.
    init(_ text: String) throws {
        if let address = try ClusterAddress(text) {
            self = .cluster(address)
        } else {
            // Probably an unset variable. The store would be created in the current folder.
            if text.isEmpty {
                throw Failure(.usage, "The address of a store is empty. Give one, or leave the option out.")
            }
            let first = String(text.prefix { $0 != "/" })
            guard ["", ".", "..", "~"].contains(first) else {
                throw Failure(
                    .usage,
                    "\(text.onOneLine) is not a store's address. A cluster's address begins with etcd:// or "
                        + "etcd+plaintext://, the path of a folder with /, ~/ or ./."
                )
            }
            var status = stat()
            if stat(text, &status) == 0, status.st_mode & S_IFMT != S_IFDIR {
                throw Failure(
                    .usage,
                    "\(text.onOneLine) is a file, and a store is a folder. If LOCKBOX_STORE is another program's variable, "
                        + "unset it, or name the store with --directory."
                )
            }
            self = .folder(text)
        }
    }
}
