"""What the workers' logs and the issuer's record must agree with. See the rule in run."""
import bisect
import collections

NEVER = float("inf")
ALIVE = NEVER, NEVER
SLACK = 2_000_000_000  # ns: a call may take so much longer than what it waits for, on a busy machine
OF_CLUSTER = {"notReachable", "outcomeUnknown"}


class Call:
    def __init__(self, worker, begin, name, session):
        self.worker, self.begin, self.name, self.session = worker, begin, name, session
        self.end, self.value, self.error = NEVER, None, ""
        self.asked, self.told, self.got = None, False, None  # the token, whether it may be spent, and the new one
        self.asked_at = NEVER
        self.is_label = name.endswith("-label")


def overlap(one, other):
    return min(one[1], other[1]) - max(one[0], other[0])


class Judge:
    """
    - kills: worker -> when it was killed, and when it was seen to be dead.
    - pauses: (worker, begin, end), as the coordinator made them; the workers add those that they noticed.
    - faults: (begin, end) of the cluster.
    """

    def __init__(self, takeover, uses, kills, pauses, faults, is_cluster):
        self.takeover, self.uses, self.kills, self.faults = takeover, uses, kills, faults
        self.pauses, self.is_cluster = [(*pause, "stopped") for pause in pauses], is_cluster
        self.noticed = []
        self.calls, self.found = {}, collections.Counter()
        self.problems, self.explanations = collections.defaultdict(list), collections.Counter()

    def problem(self, kind, text):
        self.problems[kind].append(text)

    def read(self, worker, text):
        for line in text.splitlines():
            kind, time, rest = line.split(" ", 2)
            time, words = int(time), rest.split(" ", 2)
            if kind == "v":
                self.problem("wrong in a worker", rest)
            elif kind == "p":
                self.noticed.append((worker, int(rest), time, "paused by the machine"))
            elif kind == "b":
                self.calls[words[0]] = Call(worker, time, *words)
            else:
                self.event(kind, time, self.calls[words[0]], words[1:])

    def event(self, kind, time, call, words):
        if kind in "re":
            call.end = time
        if kind == "e":
            call.error = " ".join(words)
        elif call.is_label:
            pass
        elif words[0] == "absent":
            self.problem("lost", f"{call.name}: the item is absent")
        else:
            token = int(words[0]), int(words[1].split()[0])
            if kind == "a":
                call.asked, call.told, call.asked_at = token, words[1].endswith(" 1"), time
            elif kind == "r":
                call.value = token
            else:
                call.got = token

    def check(self):
        stops = list(self.pauses)
        for pause in self.noticed:
            if not any(stop[0] == pause[0] and overlap(stop[1:3], pause[1:3]) > 0 for stop in stops):
                self.pauses.append(pause)
        self.sessions = collections.defaultdict(list)
        for call in self.calls.values():
            self.sessions[call.session].append(call)
        self.check_uses()
        for calls in self.sessions.values():
            self.check_order(calls)
        for call in self.calls.values():
            self.check_one(call)
        self.found["calls"] = len(self.calls)
        self.found["told"] = sum(call.told for call in self.calls.values())
        self.found["fresh"] = sum(call.asked is None and call.value is not None for call in self.calls.values())
        return self.problems

    # Tokens

    def check_uses(self):
        tokens = collections.defaultdict(list)
        for use in self.uses:
            tokens[use.session, use.token].append(use)
        for (session, token), uses in tokens.items():
            self.found["rotations"] += uses[0].accepted
            untold = [use.call for use in uses if not self.calls[use.call].told]
            if uses[0].accepted and len(untold) > 1:
                self.problem("used twice", f"{session} {token}: nobody told {', '.join(untold)}")
            for number, second in enumerate(uses):
                if uses[0].accepted and number:
                    self.check_second(uses[:number], second)
        issued = {(use.session, (use.token[0], use.token[1] + 1)): use.time for use in self.uses if use.accepted}
        for session, calls in self.sessions.items():
            disrupted = [call for call in calls if self.disruption(call, NEVER)]
            for call in calls:
                # A holder while this token was the current one: it has asked with no other one before.
                if call.told and not any(
                    other is not call and (other.asked == call.asked or other.asked_at > call.asked_at)
                    and self.disruption(other, call.asked_at)
                    and min(other.end, self.kills.get(other.worker, ALIVE)[1]) >= issued.get((session, call.asked), 0)
                    for other in disrupted
                ):
                    self.problem("told for nothing", f"{call.name} {call.asked}")

    def check_second(self, before, second):
        self.found["doubles"] += 1
        call = self.calls[second.call]
        holders, kind = ([self.calls[use.call] for use in before], "told") if call.told else ([call], "late")
        reasons = [reason for holder in holders if (reason := self.disruption(holder, second.time))]
        if reasons:
            self.explanations[f"{kind}: the holder {reasons[0]}"] += 1
        else:
            names = ", ".join(use.call for use in before)
            self.problem("used twice", f"{second.session} {second.token}: {names}, then {second.call}, which was "
                                       f"{'told' if call.told else 'not told'}, and no holder was stopped")

    def disruption(self, call, until):
        """Why a call could not give signs of life at some time before."""
        if call.begin > until or call.is_label:
            return None
        if call.end == NEVER and self.kills.get(call.worker, ALIVE)[0] <= until:
            return "was killed"
        open_ = call.begin, min(call.end, until)
        if self.is_cluster and call.error and call.end <= until:
            return "could not reach the cluster"  # and its claim may be there
        if overlap(open_, open_) < self.takeover / 2:
            return None
        long = [pause for pause in self.pauses if overlap(open_, pause[1:3]) > self.takeover / 2]
        for _, _, _, reason in (pause for pause in long if pause[0] == call.worker):
            return f"was {reason}"
        if long and not self.is_cluster:
            return "could not write: another one was stopped while it wrote"
        if any(overlap(open_, fault) > 0 for fault in self.faults):
            return "could not reach the cluster"
        return None

    # Values

    def check_order(self, calls):
        """A call sees no older value than one that returned before it began."""
        ends, newest = [], []
        for call in sorted((call for call in calls if call.value), key=lambda call: call.end):
            ends.append(call.end)
            newest.append(max(call.value, newest[-1] if newest else (0, 0)))
        for call in calls:
            before = bisect.bisect_left(ends, call.begin)
            if call.value and before and newest[before - 1] > call.value:
                self.problem("went backwards", f"{call.name} returned {call.value} after {newest[before - 1]}")

    def check_error(self, call):
        error = call.error.split()[0]
        if error == "notStored:conflict" and any(
            other is not call and other.got and other.got == other.value and other.got[1] == 0
            and overlap((other.begin, other.end), (call.begin, call.end)) > 0 for other in self.sessions[call.session]
        ):
            self.found["not stored after a sign-in"] += 1
        elif not (self.is_cluster and error in OF_CLUSTER):
            self.problem("an error", f"{call.name}: {call.error}")

    def check_one(self, call):
        if call.error:
            return self.check_error(call)
        if call.value is None:
            return
        if call.got and call.value != call.got:
            self.found["got a newer value"] += 1
        if call.asked and call.value <= call.asked:
            self.problem("went backwards", f"{call.name} asked with {call.asked} and returned {call.value}")
        took = call.end - call.begin
        self.found["longest"] = max(self.found["longest"], took)
        if took < self.takeover:
            return
        allowed = self.allowed((call.begin, call.end))
        self.found["over"] = max(self.found["over"], took - allowed + SLACK)
        if took > allowed:
            self.problem("waited too long", f"{call.name}: {took / 1e9:.1f} s instead of {allowed / 1e9:.1f} s")

    def allowed(self, open_):
        """One takeover for each holder that died or stopped, and the time in which one was stopped: it may have had a lock."""
        stops = [overlap(open_, pause[1:3]) for pause in self.pauses if overlap(open_, pause[1:3]) > 0]
        faults = [overlap(open_, fault) for fault in self.faults if overlap(open_, fault) > 0]
        deaths = sum(overlap(open_, kill) > 0 for kill in self.kills.values()) if self.is_cluster else 0
        return SLACK + sum(stops) + sum(faults) + self.takeover * 9 // 8 * (1 + len(stops) + len(faults) + deaths)

    def check_end(self, issuer, valid):
        """The issuer accepts what is stored after the last refresh; what was stored before it, too, unless a holder was killed."""
        for session in self.sessions:
            before, after = (self.calls[f"look-{session}-{name}"].value for name in ("before", "after"))
            if after not in issuer.valid(session):
                self.problem("lost", f"{session}: {after} is stored in the end, the issuer accepts {issuer.valid(session)}")
            if before in valid[session] or (session, before[0]) in issuer.revoked:  # the second use is explained, or a problem
                continue
            last = [self.calls[use.call] for use in self.uses if (use.session, use.token, use.accepted) == (session, before, True)]
            if last and last[0].end == NEVER and last[0].worker in self.kills:
                self.explanations["not stored in the end: the holder was killed"] += 1
            else:
                self.problem("lost", f"{session}: {before} is stored, the issuer accepts {valid[session]}")
