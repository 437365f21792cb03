#if Etcd
    /// Which cluster answers, and how far it has come, as its answers say.
    ///
    /// One of them may be false. So what contradicts them is an error of the call that has received it, and afterwards counts
    /// instead, unless other members of that call go on to say the same as before.
    struct History: Equatable {
        let cluster: UInt64
        var revision: UInt64
    }
#endif
