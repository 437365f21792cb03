/// Environment variables that control what code a program runs or whom it trusts. An item becomes one of these
/// only if the user names it.
///
/// The list consists of what ld.so(8) ignores in secure-execution mode, what sudo removes (`env_delete`), and
/// what widely used interpreters and tools document. Other programs may have such variables of their own.
enum DangerousVariables {
    /// Returns what the variable controls, as the end of a sentence, or nil if it is not in the list. Some programs, such as npm,
    /// read their variables in small letters too.
    static func effect(of name: String) -> String? {
        let name = name.uppercased()
        return groups.first { $0.names.contains(name) || $0.prefixes.contains(where: name.hasPrefix) }?.effect
            ?? (isOfFamily(name) ? "what programs load, run or trust" : nil)
    }

    /// Whether the name says that it holds a place, options or a program, or belongs to a tool that has too many such
    /// variables to list. A credential of such a tool is none of them.
    private static func isOfFamily(_ name: String) -> Bool {
        if credentials.contains(where: name.hasSuffix) { return false }
        return endings.contains(where: name.hasSuffix) || tools.contains(where: name.hasPrefix)
    }

    private static let credentials = words("TOKEN PASSWORD PASSWD SECRET _KEY _PAT USER USERNAME")

    private static let endings = words(
        """
        DIR DIRS PATH HOME _ROOT FLAGS OPTS OPTIONS _ARGS _CONFIG CONFIG_FILE _CONF _RC CMD COMMAND _EDITOR PAGER ASKPASS \
        _SHELL _ENV PRELOAD LIBS PLUGIN PLUGINS HOOK HOOKS WRAPPER LAUNCHER COMPILER LINKER _CC _CXX _LD _AR _BIN _EXE _PROGRAM \
        _EXEC _HELPER _FILE CONFFILE SERVICEFILE CAFILE CACERT CA_BUNDLE CA_CERT KEYLOGFILE SSL_VERIFY TLS_VERIFY INSECURE \
        ROOTCERT INI MODULE MODULES SOCK REGISTRY INDEX_URL ENDPOINT_URL PROXY_COMMAND LOADER SKIP_VERIFY _BASE_URL _MIRROR GOAUTH
        """
    )

    private static let tools = words(
        """
        GIT_ SSH_ NPM_ NODE_ YARN_ PIP_ UV_ RUBY BUNDLE_ GEM_ JAVA_ MAVEN_ GRADLE_ CARGO_ RUST GO111 CGO_ DOTNET_ PHP_ MAKE GCC_ \
        CCACHE_ SCCACHE_ DISTCC_ QT_ GTK_ GIO_ GST_ VK_ ELECTRON_ DEBUGINFOD_ DOCKER_ KUBE SSL_ CURL_ GOPROXY GOSUMDB GONO \
        GOPRIVATE ANSIBLE_ TF_ HG SVN_ CVS_ TEX CONDA_ NIX_ HOMEBREW_ SYSTEMD_ DBUS_ OCAML CAML FZF_ MAGICK_ VIM NVIM_ GNUPG
        """
    )

    private static func words(_ text: String) -> [String] { text.split(separator: " ").map(String.init) }

    private struct Group {
        let effect: String
        let names: Set<String>
        let prefixes: [String]

        /// - Parameter patterns: Names, separated by spaces. A star at the end of a name matches any rest.
        init(_ effect: String, _ patterns: String) {
            let patterns = patterns.split(separator: " ")
            self.effect = effect
            names = Set(patterns.filter { $0.last != "*" }.map(String.init))
            prefixes = patterns.filter { $0.last == "*" }.map { String($0.dropLast()) }
        }
    }

    /// A star is used for an open-ended family of names that is not usually used for secrets. git's variables
    /// are listed one by one, because there is `GIT_TOKEN`.
    private static let groups = [
        Group(
            "what the loader and the C library load",
            "LD_* DYLD_* GLIBC_TUNABLES GCONV_PATH GETCONF_DIR LOCPATH NLSPATH MALLOC_* TMPDIR TZDIR"
        ),
        Group("how host names are resolved", "HOSTALIASES LOCALDOMAIN NIS_PATH RES_OPTIONS RESOLV_HOST_CONF"),
        Group(
            "what a shell runs",
            """
            PATH SHELL IFS ENV BASH_* BASHOPTS SHELLOPTS PS0 PS1 PS2 PS4 PROMPT_COMMAND CDPATH GLOBIGNORE FPATH ZDOTDIR \
            NULLCMD READNULLCMD
            """
        ),
        Group("where programs look for their settings", "HOME XDG_* TERMCAP TERMINFO* TERMPATH"),
        Group(
            "what an interpreter loads",
            """
            PYTHON* PERL* RUBYLIB RUBYOPT RUBYPATH RUBYSHELL GEM_HOME GEM_PATH BUNDLE_APP_CONFIG BUNDLE_GEMFILE BUNDLE_PATH \
            NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE NPM_CONFIG_* CLASSPATH JAVA_HOME JAVA_OPTS JAVA_TOOL_OPTIONS \
            JDK_JAVA_OPTIONS _JAVA_OPTIONS LUA_* PHPRC PHP_INI_SCAN_DIR TCLLIBPATH TCL_LIBRARY GUILE_* R_ENVIRON* R_HOME \
            R_LIBS* R_PROFILE* JULIA_* ERL_* CORECLR_* DOTNET_ADDITIONAL_DEPS DOTNET_ROOT* DOTNET_SHARED_STORE \
            DOTNET_STARTUP_HOOKS AWKPATH AWKLIBPATH
            """
        ),
        Group(
            "what tools run",
            """
            EDITOR VISUAL EXINIT VIMINIT PAGER MANPAGER LESS LESSOPEN LESSCLOSE LESSEDIT LESSKEY* BROWSER GIT_ASKPASS \
            GIT_CONFIG* GIT_DIR GIT_EDITOR GIT_EXEC_PATH GIT_EXTERNAL_DIFF GIT_PAGER GIT_PROXY_COMMAND GIT_SEQUENCE_EDITOR \
            GIT_SSH* GIT_TEMPLATE_DIR SSH_ASKPASS* SSH_SK_PROVIDER SUDO_ASKPASS SUDO_EDITOR RSYNC_RSH TAR_OPTIONS
            """
        ),
        Group(
            "what is used to build programs",
            """
            CC CXX CPP LD MAKEFILES MAKEFLAGS GNUMAKEFLAGS COMPILER_PATH GCC_EXEC_PREFIX CMAKE_* PKG_CONFIG* RUSTC* RUSTFLAGS \
            CARGO_BUILD_* CARGO_HOME CARGO_TARGET_* GOENV GOFLAGS GOROOT GOTOOLCHAIN SWIFT_*
            """
        ),
        Group(
            "whom programs trust, or who can read what they send",
            """
            OPENSSL_* SSL_CERT_* SSLKEYLOGFILE CURL_CA_BUNDLE CURL_HOME REQUESTS_CA_BUNDLE WGETRC NODE_EXTRA_CA_CERTS \
            NODE_TLS_REJECT_UNAUTHORIZED GIT_SSL_* KRB5_CONFIG
            """
        ),
        Group("which store lockbox uses", "LOCKBOX_*"),
    ]
}
