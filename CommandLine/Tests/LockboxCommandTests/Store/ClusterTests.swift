import Foundation
import Testing

@testable import LockboxCommand

/// Where a store is.
@Suite struct StoreAddressTests {
    private func address(_ text: String) throws -> ClusterAddress? {
        if case .cluster(let address) = try StoreAddress(text) { address } else { nil }
    }

    @Test func addressesOfClusters() throws {
        let one = try #require(try address("etcd://a.example:2379,b.example/secrets/shop"))
        #expect(one.endpoints == ["https://a.example:2379", "https://b.example:2379"])
        #expect(one.root == "/secrets/shop")
        let local = try #require(try address("etcd+plaintext://127.0.0.1:1,[::1],[::2]:3/x"))
        #expect(local.endpoints == ["http://127.0.0.1:1", "http://[::1]:2379", "http://[::2]:3"])
    }

    @Test func folders() throws {
        guard case .folder("/var/lib/x") = try StoreAddress("/var/lib/x") else {
            Issue.record("a path is a folder")
            return
        }
    }

    @Test(arguments: ["", "etcd://", "etcd://a.example", "etcd://a.example/", "etcd:///x", "http://a/x"])
    func whatIsNoAddress(_ text: String) {
        let failure = #expect(throws: Failure.self) { try StoreAddress(text) }
        #expect(failure?.status == .usage)
    }
}

/// A store in a real cluster, of one member.
@Suite(.enabled(if: Sandbox.hasClusters, "etcd or lockbox-extended is not installed"))
struct ClusterTests {
    let sandbox: Sandbox
    private let server: Server
    private let folder: String
    private let port: Int

    init() throws {
        sandbox = try Sandbox()
        folder = "\(sandbox.home)/etcd"
        (server, port) = try Self.start(folder, "http")
        sandbox.environment["LOCKBOX_DIRECTORY"] = nil
        sandbox.environment["LOCKBOX_STORE"] = "etcd+plaintext://127.0.0.1:\(port)/secrets/shop"
        sandbox.environment["LOCKBOX_DEVICE_KEY_FILE"] =
            try sandbox.file("device-key", String(repeating: "d", count: 32))
    }

    private static func start(_ folder: String, _ scheme: String, _ options: [String] = []) throws
        -> (Server, Int)
    {
        let port = try TCPSocket.freePorts(2)
        let (own, peer) = ("\(scheme)://127.0.0.1:\(port)", "http://127.0.0.1:\(port + 1)")
        let server = try Server(
            [
                Server.path(of: "etcd")!, "--data-dir", folder, "--listen-client-urls", own,
                "--advertise-client-urls", own, "--listen-peer-urls", peer,
                "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=\(peer)",
            ] + options,
            log: "\(folder).log"
        )
        // It listens long before it answers, on a busy machine for longer than a call waits.
        try #require(Server.wait { Self.isReady("\(folder).log") })
        return (server, port)
    }

    private static func isReady(_ log: String) -> Bool {
        (try? String(contentsOfFile: log, encoding: .utf8))?.contains("ready to serve client requests")
            ?? false
    }

    @Test func items() throws {
        #expect(try sandbox.lockbox("set", "my-token", text: "hunter2-hunter2").status == 0)
        #expect(try sandbox.lockbox("get", "my-token").output == "hunter2-hunter2")
        #expect(try sandbox.lockbox("list").output.contains("my-token"))
        let completion = ["---completion", "get", "--", "positional@0", "2", "3", "lockbox", "get", "my"]
        #expect(try sandbox.execution(completion).run().output == "my-token\n")
        #expect(try sandbox.lockbox("get", "other").status == 1)
        #expect(try sandbox.lockbox("verify").status == 0)
        let status = try sandbox.lockbox("status").output
        #expect(status.contains("etcd:/secrets/shop") && status.contains("127.0.0.1:\(port)  leader"))
        // What etcd has written shows neither.
        let names = try FileManager.default.subpathsOfDirectory(atPath: folder)
        let files = names.compactMap { FileManager.default.contents(atPath: "\(folder)/\($0)") }
        #expect(files.contains { $0.range(of: Data("/secrets/shop/i/".utf8)) != nil }, "the right files")
        #expect(!files.contains { $0.range(of: Data("my-token".utf8)) != nil })
        #expect(!files.contains { $0.range(of: Data("hunter2-hunter2".utf8)) != nil })
        #expect(
            !FileManager.default.fileExists(atPath: "\(sandbox.home)/.local"),
            "nor is there a local store"
        )
        #expect(try sandbox.lockbox("remove", "my-token").status == 0)
        #expect(try sandbox.lockbox("get", "my-token").status == 1)
    }

    /// The option instead of the environment, and a member that does not answer.
    @Test func anAddress() throws {
        let address = try #require(sandbox.environment["LOCKBOX_STORE"])
        try sandbox.lockbox("set", "k", text: "v")
        sandbox.environment["LOCKBOX_STORE"] = nil
        let two = address.replacingOccurrences(of: "127.0.0.1:\(port)", with: "127.0.0.1:1,127.0.0.1:\(port)")
        #expect(try sandbox.lockbox("get", "k", "--store", two).output == "v")
        #expect(try sandbox.lockbox("get", "k", "--store=\(two)").output == "v")
        let status = try sandbox.lockbox("status", "--json", "--store", two)
        #expect(status.output.contains(#""state" : "unreachable""#))
        #expect(try sandbox.lockbox("get", "k", "--store", two, "--directory", "x").status == 64)
    }

    /// Which of them answer says why.
    @Test func theMembersOfAClusterThatCannotBeReached() throws {
        sandbox.environment["LOCKBOX_STORE"] = "etcd+plaintext://127.0.0.1:1,127.0.0.1:2/secrets/shop"
        let status = try sandbox.lockbox("status")
        #expect(status.status == 74 && status.error.contains("cannot be reached"), "\(status.error)")
        for port in 1...2 { #expect(status.output.contains("http://127.0.0.1:\(port)  unreachable")) }
        let json = try sandbox.lockbox("status", "--json")
        #expect(json.status == 74 && json.output.contains(#""state" : "unreachable""#))
    }

    /// As etcd 3.4.44 does it for who is not its administrator.
    @Test func aMemberThatTellsNothing() throws {
        let answer =
            #"{"error":"etcdserver: permission denied","code":7,"message":"etcdserver: permission denied"}"#
        let port = try Server.answering("403 Forbidden", answer)
        sandbox.environment["LOCKBOX_STORE"] = "etcd+plaintext://127.0.0.1:\(port)/secrets/shop"
        let status = try sandbox.lockbox("status")
        #expect(status.output.contains("http://127.0.0.1:\(port)  denied"), "\(status)")
    }

    @Test func aDeviceKeyOutsideTheCluster() throws {
        sandbox.environment["LOCKBOX_DEVICE_KEY_FILE"] = nil
        let outcome = try sandbox.lockbox("set", "k", text: "v")
        #expect(outcome.status == 3 && outcome.error.contains("device key"))
    }

    @Test func classesThatStayOnOneDevice() throws {
        let outcome = try sandbox.lockbox("set", "k", "--class", "alwaysThisDeviceOnly", text: "v")
        #expect(outcome.status == 74 && outcome.error.contains("other devices share"), "\(outcome.error)")
        #expect(try sandbox.lockbox("get", "k").status == 1)
    }

    @Test func aPasscodeAndAnotherProgram() throws {
        try sandbox.lockbox("set", "k", text: "v")
        let passcode = try sandbox.setPasscode()
        #expect(try sandbox.lockbox("get", "k").status == 2)
        #expect(try sandbox.lockbox("get", "k", "--passcode-file", passcode).output == "v")
        let git = try sandbox.lockbox(
            "git-credential",
            "--passcode-file",
            passcode,
            "store",
            text: "protocol=https\nhost=a.example\nusername=u\npassword=p\n"
        )
        #expect(git.status == 0, "\(git.error)")
        let found = try sandbox.lockbox(
            "git-credential",
            "--passcode-file",
            passcode,
            "get",
            text: "protocol=https\nhost=a.example\n"
        )
        #expect(found.output.contains("password=p"))
        let program = try sandbox.lockbox(
            "exec",
            "--passcode-file",
            passcode,
            "--only",
            "k",
            "--",
            "/bin/sh",
            "-c",
            "echo \"$K\""
        )
        #expect(program.output == "v\n")
    }

    /// From this machine to the cluster.
    @Test func aBackup() throws {
        let passphrase = try sandbox.file("passphrase", "open sesame")
        let backup = "\(sandbox.home)/backup"
        let own = ["--directory", sandbox.store]
        let environment = sandbox.environment
        sandbox.environment["LOCKBOX_DEVICE_KEY_FILE"] = nil
        var set = sandbox.execution(["set", "k"] + own)
        set.input = Data("v".utf8)
        #expect(try set.run().status == 0)
        let export = ["export", backup, "--strength", "interactive", "--passphrase-file", passphrase] + own
        #expect(try sandbox.execution(export).run().status == 0)
        sandbox.environment = environment
        let imported = try sandbox.lockbox("import", backup, "--passphrase-file", passphrase)
        #expect(imported.output.contains("items imported: 1"))
        #expect(try sandbox.lockbox("get", "k").output == "v")
    }

    /// From this machine to the cluster and back, without a file in between.
    @Test func copiesBetweenStores() throws {
        let cluster = try #require(sandbox.environment["LOCKBOX_STORE"])
        let key = try #require(sandbox.environment["LOCKBOX_DEVICE_KEY_FILE"])
        for name in ["LOCKBOX_STORE", "LOCKBOX_DEVICE_KEY_FILE"] { sandbox.environment[name] = nil }
        let other = ["--to-store", cluster, "--to-device-key-file", key]
        for name in ["a", "b"] { try sandbox.lockbox("set", name, "--label", "L", text: "of \(name)") }
        try sandbox.lockbox("set", "bound", "--class", "alwaysThisDeviceOnly", text: "v")
        try sandbox.lockbox("set", "c", "--prefix", "other", text: "of c")

        let one = try sandbox.execution(["copy", "a", "renamed"] + other).run()
        #expect(one.status == 0 && one.output == "", "\(one.error)")
        let again = try sandbox.execution(["copy", "a", "renamed"] + other).run()
        #expect(again.status == 0, "it is there, and equal")
        #expect(try sandbox.execution(["copy", "b", "renamed"] + other).run().status == 4)
        #expect(try sandbox.execution(["copy", "absent"] + other).run().status == 1)

        let all = try sandbox.execution(["copy", "--all"] + other).run()
        #expect(all.output == "items copied: 3\n" && all.error.contains("copy: "), "\(all.error)")
        #expect(all.status == 3 && all.error.contains("bound") && all.error.contains("could not be copied: "))
        let inCluster = ["--store", cluster, "--device-key-file", key]
        #expect(try sandbox.execution(["get", "renamed"] + inCluster).run().output == "of a")
        #expect(try sandbox.execution(["get", "c", "--prefix", "other"] + inCluster).run().output == "of c")
        #expect(try sandbox.execution(["info", "b"] + inCluster).run().output.contains("L"))

        // A different item is kept, unless it is to be replaced. And back, into a third store.
        try sandbox.lockbox("set", "b", text: "newer")
        let kept = try sandbox.execution(["copy"] + other).run()
        #expect(kept.output.contains("kept, and differs: lockbox b"))
        #expect(
            try sandbox.execution(["copy", "--replace"] + other).run().output.contains("items copied: 2")
        )
        let back = try sandbox.execution(
            ["copy", "--to-store=\(sandbox.home)/third", "--quiet"] + inCluster
        ).run()
        #expect(back.status == 0 && back.output == "" && back.error == "", "\(back.error)")
        #expect(
            try sandbox.execution(["get", "b", "--directory", "\(sandbox.home)/third"]).run().output
                == "newer"
        )
    }

    @Test func aRotationThatForgetsOldValues() throws {
        try sandbox.lockbox("set", "k", text: "v")
        let outcome = try sandbox.lockbox("rotate", "--compact")
        #expect(
            outcome.status == 0 && outcome.error.contains("The cluster was compacted"),
            "\(outcome.error)"
        )
        #expect(try sandbox.lockbox("get", "k").output == "v")
        let files = try sandbox.lockbox("rotate", "--compact", "--store", "\(sandbox.home)/files")
        #expect(files.status == 64 && files.error.contains("in a cluster"))
    }

    @Test func nobodyAnswers() throws {
        sandbox.environment["LOCKBOX_STORE"] = "etcd+plaintext://127.0.0.1:1/secrets/shop"
        let outcome = try sandbox.lockbox("get", "k")
        #expect(outcome.status == 74 && outcome.error.contains("cannot be reached"))
    }

    @Test(.enabled(if: Server.path(of: "openssl") != nil, "openssl is not installed"))
    func encryption() throws {
        let (certificate, key) = ("\(sandbox.home)/cert.pem", "\(sandbox.home)/key.pem")
        let made = try sandbox.execution(
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                "2",
                "-subj", "/CN=etcd", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
                certificate,
            ],
            executable: Server.path(of: "openssl")!
        ).run()
        try #require(made.status == 0)
        let (server, port) = try Self.start(
            "\(sandbox.home)/encrypted",
            "https",
            ["--cert-file", certificate, "--key-file", key]
        )
        try withExtendedLifetime(server) {
            sandbox.environment["LOCKBOX_STORE"] = "etcd://127.0.0.1:\(port)/secrets/shop"
            let unknown = try sandbox.lockbox("set", "k", text: "v")
            #expect(unknown.status == 74 && unknown.error.contains("certificate"), "\(unknown.error)")
            #expect(try sandbox.lockbox("set", "k", "--ca-file", certificate, text: "v").status == 0)
            sandbox.environment["LOCKBOX_CA_FILE"] = certificate
            #expect(try sandbox.lockbox("get", "k").output == "v")
            sandbox.environment["LOCKBOX_STORE"] = "etcd+plaintext://127.0.0.1:\(port)/secrets/shop"
            #expect(try sandbox.lockbox("get", "k").status == 74)
        }
    }
}

/// The first executable alone.
@Suite struct ExtensionTests {
    @Test(arguments: [
        ["get", "k", "--store", "etcd://127.0.0.1:1/x"], ["unlock", "--tpm"], ["unlock", "--fido2"],
    ])
    func whatIsNotInstalledIsNamed(_ arguments: [String]) throws {
        let sandbox = try Sandbox()
        try sandbox.lockbox("set", "k", text: "v")
        try sandbox.setPasscode()
        let bin = "\(sandbox.home)/bin"
        try FileManager.default.createDirectory(atPath: bin, withIntermediateDirectories: true)
        let alone = "\(bin)/lockbox"
        let original = URL(fileURLWithPath: Sandbox.executable).resolvingSymlinksInPath().path
        // A process of its own: what this one has open for writing may be inherited, and then it cannot be run.
        try #require(sandbox.execution([original, alone], executable: "/bin/cp").run().status == 0)
        sandbox.environment["LOCKBOX_DIRECTORY"] = arguments.contains("--store") ? nil : sandbox.store
        let outcome = try sandbox.execution(arguments, executable: alone).run()
        #expect(
            outcome.status == 64 && outcome.error.contains("Scripts/install-command --with-"),
            "\(outcome)"
        )
    }
}
