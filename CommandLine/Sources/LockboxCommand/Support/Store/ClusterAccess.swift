import ArgumentParser

/// How a cluster is reached: from options, or from the environment.
struct ClusterAccess {
    var caFile: String?
    var certificate: String?
    var certificateKey: String?
    var user: String?
    var userPasswordFile: String?

    /// With the environment's values in place of options that were not given.
    var complete: ClusterAccess {
        get throws {
            try ClusterAccess(
                caFile: caFile ?? Environment["LOCKBOX_CA_FILE"],
                certificate: certificate ?? Environment["LOCKBOX_CERTIFICATE_FILE"],
                certificateKey: certificateKey ?? Environment["LOCKBOX_CERTIFICATE_KEY_FILE"],
                user: user ?? Environment["LOCKBOX_USER"],
                userPasswordFile: userPasswordFile ?? Environment["LOCKBOX_USER_PASSWORD_FILE"]
            )
        }
    }
}
