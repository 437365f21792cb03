/// Parses a time span: `30s`, `15m`, `8h`, `7d`, `2w`.
enum Lifetime {
    static func seconds(_ text: String) -> Int? {
        let units: [Character: Int] = ["s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800]
        guard let unit = text.last.flatMap({ units[$0] }), text.utf8.allSatisfy({ $0 != UInt8(ascii: "+") }),
            let count = Int(text.dropLast()), count > 0
        else { return nil }
        let (seconds, overflow) = count.multipliedReportingOverflow(by: unit)
        return overflow || seconds > 100 * 366 * 86400 ? nil : seconds
    }

    /// Parses an expiry date: a time span from now, or an ISO 8601 date. A day begins in the local time zone, in which dates are
    /// shown.
    static func end(_ text: String, now: Date) -> Date? {
        if let seconds = seconds(text) { return now.addingTimeInterval(TimeInterval(seconds)) }
        let full = text.contains("T") ? text : "\(text)T00:00:00Z"
        guard isOnTheCalendar(full), let date = try? Date(full, strategy: .iso8601) else { return nil }
        return text.contains("T") ? date : localDay(of: date)
    }

    private static func localDay(of midnight: Date) -> Date {
        var (seconds, day) = (time_t(midnight.timeIntervalSince1970), tm())
        gmtime_r(&seconds, &day)
        day.tm_isdst = -1
        return Date(timeIntervalSince1970: TimeInterval(mktime(&day)))
    }

    /// Foundation accepts February 30 as March 2, and 25:00 as 1:00 of the next day.
    private static func isOnTheCalendar(_ text: String) -> Bool {
        let parts = text.split(separator: "T", maxSplits: 1)
        guard parts.count == 2, let midnight = try? Date("\(parts[0])T00:00:00Z", strategy: .iso8601) else {
            return false
        }
        let units = parts[1].prefix { $0.isNumber || $0 == ":" }.split(separator: ":").compactMap { Int($0) }
        return midnight.formatted(.iso8601).hasPrefix("\(parts[0])T")
            && zip(units, [23, 59, 59]).allSatisfy { $0 <= $1 }
    }
}
