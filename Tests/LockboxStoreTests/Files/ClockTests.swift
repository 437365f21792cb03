import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Waits are by a clock that is never set.
@Suite struct ClockTests {
    @Test(.enabled(if: Preload.isThere)) func settingTheTimeMovesNoEndOfAWait() throws {
        let store = try TestStore()
        #expect(try TestProcess("write", store.directory, "k", "old").wait() == 0)
        let holder = try TestProcess("hold", store.directory, "k")
        holder.waitForOutput()
        // The clock is set back by an hour just after each look at it.
        let preload = try Preload(
            """
            #include <sys/syscall.h>
            #include <time.h>
            #include <unistd.h>
            int clock_gettime(clockid_t clock, struct timespec *time) {
                int result = syscall(SYS_clock_gettime, clock, time);
                if (clock == CLOCK_REALTIME) time->tv_sec += 3600;
                return result;
            }
            """
        )
        let writer = try TestProcess(
            ["write", store.directory, "k", "new", "200"],
            environment: preload.environment
        )
        writer.killAfter(.seconds(30))
        #expect(writer.wait() == 5, "lockTimeout")
        #expect(holder.wait() == 0)
    }
}
