// An instance of a small HTTP service. All instances share the OAuth sessions of the users in a cluster of etcd.
//
//     SharedSession ENDPOINTS DEVICE-KEY-FILE ISSUER-PORT [PATIENCE]
//
// POST /login/alice logs alice in; GET /users/alice prints what the issuer says of her. Scripts/demo-cluster starts
// everything that it needs.

import Foundation

#if Etcd
    import Lockbox
    import LockboxEtcd
    import TinyHTTP

    func answer(_ request: Request, _ sessions: SessionKeeper, _ issuer: Issuer) async throws -> Response {
        let user = request.path.split(separator: "/").last.map(String.init) ?? ""
        if request.method == "POST" {
            try await sessions.logIn(user)
            return Response(200)
        }
        // The access token may expire on its way.
        for _ in 0..<2 {
            let profile = try await issuer.profile(sessions.accessToken(of: user))
            if let profile { return Response(200, profile) }
        }
        throw SessionError.loggedOut
    }

    /// Says nothing of what failed: clients are not to know.
    func status(_ error: any Error) -> Int {
        switch error {
        case SessionError.loggedOut: return 401
        case is IssuerError: return 502
        default:
            FileHandle.standardError.write(Data("SharedSession: \(error)\n".utf8))
            return 503
        }
    }

    // Before any thread is made, so that every thread leaves this signal to sigwait.
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGTERM)
    pthread_sigmask(SIG_BLOCK, &signals, nil)

    let arguments = CommandLine.arguments
    guard arguments.count >= 4, let port = Int(arguments[3]) else { exit(64) }
    let storage = try EtcdStorage(
        endpoints: arguments[1].split(separator: ",").map(String.init),
        root: "/lockbox/shared-session",
        security: .insecurePlaintext  // On one machine. Elsewhere: .tls()
    )
    let backend = SealedBackend(storage: storage, deviceKey: .file(arguments[2]))
    let lockbox = try Lockbox(keyPrefix: "com.example.shared-session", backend: backend)
    let issuer = Issuer(port: port)
    let patience = arguments.count > 4 ? Double(arguments[4]) ?? 30 : 30
    let sessions = SessionKeeper(lockbox, issuer, patience: .seconds(patience))
    let server = try Server()
    server.start { request in
        do { return try await answer(request, sessions, issuer) } catch { return Response(status(error)) }
    }
    FileHandle.standardOutput.write(Data("\(server.port)\n".utf8))

    var signal: Int32 = 0
    sigwait(&signals, &signal)
    await Lockbox.endRefreshes()
#else
    FileHandle.standardError.write(Data("SharedSession needs --traits Etcd.\n".utf8))
    exit(69)
#endif
