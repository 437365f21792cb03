// Every file of the command imports the C library (Platform+Linux.swift, Platform+Darwin.swift) and
// FoundationEssentials. Full Foundation would be three quarters of the executable.

#if canImport(FoundationEssentials)
    @_exported import FoundationEssentials
#else
    @_exported import Foundation
#endif
