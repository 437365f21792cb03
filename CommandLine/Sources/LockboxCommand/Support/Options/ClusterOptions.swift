import ArgumentParser

/// How a store in a cluster is reached.
struct ClusterOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            Trust the authorities in this PEM file, instead of the system's, if the store is in a cluster. \
            (default: $LOCKBOX_CA_FILE)
            """,
            valueName: "file"
        ),
        completion: .file()
    )
    var caFile: String?

    @Option(
        help: ArgumentHelp(
            "The client certificate for the cluster, a PEM file. (default: $LOCKBOX_CERTIFICATE_FILE)",
            valueName: "file"
        ),
        completion: .file()
    )
    var certificateFile: String?

    @Option(
        help: ArgumentHelp(
            "The private key of the client certificate. (default: $LOCKBOX_CERTIFICATE_KEY_FILE)",
            valueName: "file"
        ),
        completion: .file()
    )
    var certificateKeyFile: String?

    @Option(
        help: ArgumentHelp("The cluster's user. (default: $LOCKBOX_USER)", valueName: "name")
    )
    var user: String?

    @Option(
        help: ArgumentHelp(
            "Read the user's password from this file. (default: $LOCKBOX_USER_PASSWORD_FILE)",
            valueName: "file"
        ),
        completion: .file()
    )
    var userPasswordFile: String?

    var access: ClusterAccess {
        ClusterAccess(
            caFile: caFile,
            certificate: certificateFile,
            certificateKey: certificateKeyFile,
            user: user,
            userPasswordFile: userPasswordFile
        )
    }
}
