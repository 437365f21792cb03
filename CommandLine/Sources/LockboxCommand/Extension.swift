import CProcess

/// The second executable, which has what the first one lacks: stores in clusters, TPMs, security keys and the Secret Service. The
/// libraries for these make every start of a program several times as slow.
///
/// Both are the same program, compiled with other traits.
enum Extension {
    static func missing(_ what: String, _ option: String) -> Failure {
        Failure(
            .usage,
            "This lockbox was built without support for \(what). Reinstall it with Scripts/install-command \(option)."
        )
    }

    #if Etcd || TPM || FIDO2 || SecretService
        /// This is the second executable.
        static func startIfNeeded(_ arguments: [String]) {}
    #else
        /// Replaces this process with the second executable if the store is in a cluster, if hardware is to unlock it, or for a
        /// command that only that one has.
        ///
        /// Does not return if it is there. Otherwise the command fails when it comes to what is missing.
        static func startIfNeeded(_ arguments: [String]) {
            guard isNeeded(arguments), let program = path else { return }
            ProcessMemory.restoreCoreLimit()
            execv(program, CommandLine.unsafeArgv)
        }

        /// Looks at the words only: a word too many costs a slower start.
        private static func isNeeded(_ arguments: [String]) -> Bool {
            // The words to complete follow a "--".
            let words = arguments.first == "---completion" ? arguments[...] : arguments.prefix { $0 != "--" }
            let store = (try? Environment["LOCKBOX_STORE"]) ?? ""
            return words.first == DoctorCommand._commandName || ClusterAddress.isScheme(of: store)
                || words.contains { word in
                    let value = word.hasPrefix("--") ? word.drop { $0 != "=" }.dropFirst() : word[...]
                    return word == "--tpm" || word == "--fido2" || value == SecretServiceCommand.name
                        || ClusterAddress.isScheme(of: value)
                } || words.prefix(2) == ["slots", "add"] && words.contains { $0 == "tpm" || $0 == "fido2" }
        }

        /// `libexec/lockbox-extended` beside the folder of this executable.
        private static var path: String? {
            let folder = ownPath?.wholeMatch(of: /(.*)\/[^\/]*\/[^\/]*/.dotMatchesNewlines())?.1
            return folder.map { "\($0)/libexec/lockbox-extended" }
        }
    #endif
}
