#if Etcd
    struct Transaction: Request {
        var compare: [Comparison] = []
        var success: [Operation] = []
        var failure: [Operation] = []

        func write(to json: inout JSONWriter) {
            json.add("compare", compare)
            json.add("success", success)
            json.add("failure", failure)
        }

        // MARK: Its answer

        private var operations: [Operation] { success + failure }

        var maximumLength: Int {
            let hasRange = operations.contains { if case .range = $0 { true } else { false } }
            return hasRange ? RangeRequest.maximumLength : 65_536
        }

        /// Responses, and what the ranges have found.
        var maximumElements: Int { 2 * max(success.count, failure.count) }

        func accepts(_ answer: some Answer) -> Bool {
            guard let answer = answer as? TransactionAnswer else { return true }
            let now = answer.header?.revision ?? 0
            let made = answer.isDone ? success : failure
            guard answer.isDone || !compare.isEmpty, answer.responses.count == made.count else {
                return false
            }
            return zip(made, answer.responses).allSatisfy { operation, response in
                switch operation {
                case .range(let request): response.map { request.accepts($0, at: now) } ?? false
                // What was written came after what was compared.
                case .put: response == nil && compare.allSatisfy { $0.revision ?? 0 < now }
                case .delete: response == nil
                }
            }
        }
    }
#endif
