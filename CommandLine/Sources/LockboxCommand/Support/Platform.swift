// What every file of the command sees: the C library (Platform+Linux.swift, Platform+Darwin.swift), and of Foundation only
// what is small. Full Foundation would be three quarters of the program.

#if canImport(FoundationEssentials)
    @_exported import FoundationEssentials
#else
    @_exported import Foundation
#endif
