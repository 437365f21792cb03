#if canImport(Darwin)
    import Foundation

    func streamSocket() -> CInt { socket(AF_INET, SOCK_STREAM, 0) }
#endif
