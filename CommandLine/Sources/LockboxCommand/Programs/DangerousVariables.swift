/// Environment variables that control what code a program runs or whom it trusts. An item becomes one of these
/// only if the user names it.
///
/// The list consists of what ld.so(8) ignores in secure-execution mode, what sudo removes (`env_delete`), and
/// what widely used interpreters and tools document. Other programs may have such variables of their own.
///
/// Its patterns have spaces between them. A star stands for anything.
enum DangerousVariables {
    /// Returns what the variable controls, as the end of a sentence, or nil if it is not in the list. Some programs, such as npm,
    /// read their variables in small letters too.
    static func effect(of name: String) -> String? {
        let name = name.uppercased()
        if let group = groups.first(where: { matches(name, $0.value) }) { return group.key }
        if matches(name, credentials) || !matches(name, families) { return nil }
        return "what programs load, run or trust"
    }

    private static func matches(_ name: String, _ patterns: String) -> Bool {
        patterns.split(separator: " ").contains { fnmatch(String($0), name, 0) == 0 }
    }

    /// Names that say that they hold a place, options or a program, or that belong to a tool that has too many such variables
    /// to list. A credential of such a tool is none of them.
    private static let families = """
        *DIR *DIRS *PATH *HOME *_ROOT *FLAGS *OPTS *OPTIONS *_ARGS *_CONFIG *CONFIG_FILE *_CONF *_RC *CMD *COMMAND \
        *_EDITOR *PAGER *ASKPASS *_SHELL *_ENV *PRELOAD *LIBS *PLUGIN *PLUGINS *HOOK *HOOKS *WRAPPER *LAUNCHER *COMPILER \
        *LINKER *_CC *_CXX *_LD *_AR *_BIN *_EXE *_PROGRAM *_EXEC *_HELPER *_FILE *CONFFILE *SERVICEFILE *CAFILE *CACERT \
        *CA_BUNDLE *CA_CERT *KEYLOGFILE *SSL_VERIFY *TLS_VERIFY *INSECURE *ROOTCERT *INI *MODULE *MODULES *SOCK *REGISTRY \
        *INDEX_URL *ENDPOINT_URL *PROXY_COMMAND *LOADER *SKIP_VERIFY *_BASE_URL *_MIRROR *GOAUTH \
        GIT_* SSH_* NPM_* NODE_* YARN_* PIP_* UV_* RUBY* BUNDLE_* GEM_* JAVA_* MAVEN_* GRADLE_* CARGO_* RUST* GO111* CGO_* \
        DOTNET_* PHP_* MAKE* GCC_* CCACHE_* SCCACHE_* DISTCC_* QT_* GTK_* GIO_* GST_* VK_* ELECTRON_* DEBUGINFOD_* \
        DOCKER_* KUBE* SSL_* CURL_* GOPROXY* GOSUMDB* GONO* GOPRIVATE* ANSIBLE_* TF_* HG* SVN_* CVS_* TEX* CONDA_* NIX_* \
        HOMEBREW_* SYSTEMD_* DBUS_* OCAML* CAML* FZF_* MAGICK_* VIM* NVIM_* GNUPG*
        """

    private static let credentials = "*TOKEN *PASSWORD *PASSWD *SECRET *_KEY *_PAT *USER *USERNAME"

    /// A star is used for an open-ended family of names that is not usually used for secrets. git's variables
    /// are listed one by one, because there is `GIT_TOKEN`.
    private static let groups: KeyValuePairs = [
        "what the loader and the C library load":
            "LD_* DYLD_* GLIBC_TUNABLES GCONV_PATH GETCONF_DIR LOCPATH NLSPATH MALLOC_* TMPDIR TZDIR",
        "how host names are resolved": "HOSTALIASES LOCALDOMAIN NIS_PATH RES_OPTIONS RESOLV_HOST_CONF",
        "what a shell runs": """
        PATH SHELL IFS ENV BASH_* BASHOPTS SHELLOPTS PS0 PS1 PS2 PS4 PROMPT_COMMAND CDPATH GLOBIGNORE FPATH ZDOTDIR \
        NULLCMD READNULLCMD
        """,
        "where programs look for their settings": "HOME XDG_* TERMCAP TERMINFO* TERMPATH",
        "what an interpreter loads": """
        PYTHON* PERL* RUBYLIB RUBYOPT RUBYPATH RUBYSHELL GEM_HOME GEM_PATH BUNDLE_APP_CONFIG BUNDLE_GEMFILE \
        BUNDLE_PATH NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE NPM_CONFIG_* CLASSPATH JAVA_HOME JAVA_OPTS \
        JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS LUA_* PHPRC PHP_INI_SCAN_DIR TCLLIBPATH TCL_LIBRARY GUILE_* \
        R_ENVIRON* R_HOME R_LIBS* R_PROFILE* JULIA_* ERL_* CORECLR_* DOTNET_ADDITIONAL_DEPS DOTNET_ROOT* \
        DOTNET_SHARED_STORE DOTNET_STARTUP_HOOKS AWKPATH AWKLIBPATH
        """,
        "what tools run": """
        EDITOR VISUAL EXINIT VIMINIT PAGER MANPAGER LESS LESSOPEN LESSCLOSE LESSEDIT LESSKEY* BROWSER GIT_ASKPASS \
        GIT_CONFIG* GIT_DIR GIT_EDITOR GIT_EXEC_PATH GIT_EXTERNAL_DIFF GIT_PAGER GIT_PROXY_COMMAND GIT_SEQUENCE_EDITOR \
        GIT_SSH* GIT_TEMPLATE_DIR SSH_ASKPASS* SSH_SK_PROVIDER SUDO_ASKPASS SUDO_EDITOR RSYNC_RSH TAR_OPTIONS
        """,
        "what is used to build programs": """
        CC CXX CPP LD MAKEFILES MAKEFLAGS GNUMAKEFLAGS COMPILER_PATH GCC_EXEC_PREFIX CMAKE_* PKG_CONFIG* RUSTC* \
        RUSTFLAGS CARGO_BUILD_* CARGO_HOME CARGO_TARGET_* GOENV GOFLAGS GOROOT GOTOOLCHAIN SWIFT_*
        """,
        "whom programs trust, or who can read what they send": """
        OPENSSL_* SSL_CERT_* SSLKEYLOGFILE CURL_CA_BUNDLE CURL_HOME REQUESTS_CA_BUNDLE WGETRC NODE_EXTRA_CA_CERTS \
        NODE_TLS_REJECT_UNAUTHORIZED GIT_SSL_* KRB5_CONFIG
        """,
        "which store lockbox uses": "LOCKBOX_*",
    ]
}
