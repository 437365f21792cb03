// The programs that Scripts/demo-cluster needs around the service in SharedSession.
//
//     ClusterDemo issuer [LIFETIME [GRACE [DELAY]]]     issues tokens; prints its port
//     ClusterDemo leader ENDPOINT…                      prints the endpoint of the member that leads
//     ClusterDemo visits SECONDS PORT,… USER…           asks the instances, and prints what came of it
//     ClusterDemo ask METHOD PORT PATH                  prints status and answer

import Foundation

#if Etcd
    import LockboxEtcd
    import TinyHTTP

    func say(_ text: String) { FileHandle.standardOutput.write(Data("\(text)\n".utf8)) }

    func leader(_ endpoints: [String]) throws -> String? {
        let storage = try EtcdStorage(endpoints: endpoints, root: "/demo", security: .insecurePlaintext)
        let members = storage.members().compactMap { try? $0.get() }
        return members.count < endpoints.count ? nil : members.first(where: \.isLeader)?.endpoint
    }

    let arguments = Array(CommandLine.arguments.dropFirst())
    switch (arguments.first, arguments.count) {
    case ("issuer", _):
        let given = arguments.dropFirst().compactMap { Double($0) }
        let seconds = given + [4, 0, 0.05].dropFirst(given.count)
        let issuer = TokenIssuer(
            lifetime: .seconds(seconds[0]),
            grace: .seconds(seconds[1]),
            delay: .seconds(seconds[2])
        )
        let server = try Server()
        server.start { await issuer.answer($0) }
        say("\(server.port)")
        while true { pause() }
    case ("leader", 2...):
        // Nothing, and a failure, while there is none.
        guard let leader = try leader(Array(arguments.dropFirst())) else { exit(1) }
        say(leader)
    case ("visits", 4...):
        let visits = Visits(ports: arguments[2].split(separator: ",").compactMap { Int($0) })
        await visits.run(Array(arguments.dropFirst(3)), for: .seconds(Double(arguments[1]) ?? 0))
        say(await visits.report)
    case ("ask", 4):
        let response = try await exchange(Request(arguments[1], arguments[3]), port: Int(arguments[2]) ?? 0)
        say("\(response.status) \(response.body)")
    default: exit(64)
    }
#else
    FileHandle.standardError.write(Data("ClusterDemo needs --traits Etcd.\n".utf8))
    exit(69)
#endif
