#if canImport(Glibc) || canImport(Musl)
    import Foundation

    func streamSocket() -> CInt { socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0) }
#endif
