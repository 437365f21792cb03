"""The cluster's faults. Each makes sure that it has the effect that it is to have, and leaves a whole cluster.

A fault is a function of the cluster, a random generator, and a list that receives the instants at which a leader dies.
"""
import signal
import time

from cluster import wait_until

DOWN = 2.5  # seconds that a member is gone


def others_elect(cluster, leader):
    cluster.leader(cluster.followers(leader))


def leader_killed(cluster, random, deaths):
    leader = cluster.leader()
    leader.send(signal.SIGKILL)
    deaths.append(time.monotonic_ns())
    leader.end()
    others_elect(cluster, leader)
    time.sleep(DOWN)
    cluster.restart(leader)


def leader_restarted(cluster, random, deaths):
    leader = cluster.leader()
    leader.end(signal.SIGTERM)
    cluster.restart(leader)


def leader_paused(cluster, random, deaths):
    leader = cluster.leader()
    leader.send(signal.SIGSTOP)
    try:
        others_elect(cluster, leader)
        time.sleep(random.uniform(0, DOWN))
    finally:
        leader.send(signal.SIGCONT)


def leader_cut_off(cluster, random, deaths):
    leader = cluster.leader()
    cluster.cut(leader, cluster.followers(leader))
    others_elect(cluster, leader)
    time.sleep(random.uniform(0, DOWN))
    cluster.heal()


def follower_cut_off(cluster, random, deaths):
    leader = cluster.leader()
    follower = random.choice(cluster.followers(leader))
    cluster.cut(follower, cluster.followers(follower))
    wait_until(lambda: not follower.serves(), "a follower that is cut off serves")
    time.sleep(random.uniform(0, DOWN))
    cluster.heal()


def quorum_lost(cluster, random, deaths):
    leader = cluster.leader()
    one, two = cluster.followers(leader)
    cluster.cut(one, [leader, two])
    cluster.cut(two, [leader])
    wait_until(lambda: not any(member.serves() for member in cluster.members), "a member serves without a quorum")
    time.sleep(random.uniform(0, DOWN))
    cluster.heal()


def disk_full(cluster, random, deaths):
    member = random.choice(cluster.members)
    with cluster.full_disk(member):
        wait_until(lambda: member.process.poll() is not None, "a member lives without a disk to write to")
        time.sleep(random.uniform(0, DOWN))
    cluster.restart(member)


def member_replaced(cluster, random, deaths):
    cluster.replace(random.choice(cluster.members))


FAULTS = {
    "leader killed": leader_killed,
    "leader restarted": leader_restarted,
    "leader paused": leader_paused,
    "late writes": leader_paused,
    "leader cut off": leader_cut_off,
    "follower cut off": follower_cut_off,
    "quorum lost": quorum_lost,
    "disk full": disk_full,
    "member replaced": member_replaced,
}
# Those that need a network and a disk for each member.
APART = {"leader cut off", "follower cut off", "quorum lost", "disk full"}
# Settings of rounds instead of the mix `cluster` on few keys, and the time limits of calls in milliseconds. Late writes: most
# calls in an election time out. Half of the many keys are absent, and others seldom write to them, so an item that comes back
# after its removal is seen.
SETTINGS = {"late writes": {"mix": "removals", "keys": 30, "limits": [500, 800]}}
