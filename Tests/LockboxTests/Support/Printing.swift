/// What each way of printing a value shows of it.
func textsOfPrinting(_ subject: Any) -> [String] {
    var (dumped, printed, debugPrinted) = ("", "", "")
    dump(subject, to: &dumped)
    print(subject, to: &printed)
    debugPrint(subject, to: &debugPrinted)
    return [
        dumped, printed, debugPrinted, "\(subject)", String(describing: subject), String(reflecting: subject),
        "\([subject])", "\(Optional(subject) as Any)",
    ]
}
