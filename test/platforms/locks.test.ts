import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { PlatformSession } from "../../src/deploy/platform.ts";
import appRunner from "../../src/plugins/platforms/app-runner/platform.ts";
import ecsExpress from "../../src/plugins/platforms/aws-ecs-express/platform.ts";
import cloudRun from "../../src/plugins/platforms/cloud-run/platform.ts";
import { type AwsHarness, awsHarness } from "./aws/harness.ts";
import { type CloudRunHarness, cloudRunHarness } from "./google/harness.ts";

let aws: AwsHarness;
let google: CloudRunHarness;
beforeAll(async () => {
  [aws, google] = await Promise.all([awsHarness(), cloudRunHarness()]);
});
afterAll(async () => {
  await Promise.all([aws.close(), google.close()]);
});

const CLOUDS: readonly [string, () => Promise<PlatformSession>][] = [
  ["cloud-run", () => google.connect()],
  ["aws-ecs-express", async () => ecsExpress.connect(aws.target({}), aws.tools())],
  ["aws-app-runner", async () => appRunner.connect(aws.target({}), aws.tools())],
];

const who = (id: string, seconds = 1800, breakLock = false) =>
  [
    { id, holder: `${id}@checkout (svc deploy up, first)`, since: new Date().toISOString() },
    { seconds, breakLock },
  ] as const;

/** The outcomes of several at the same time: how to release it, or the message of the refusal. */
async function race(takes: readonly Promise<() => Promise<void>>[]) {
  const ended = await Promise.allSettled(takes);
  const won = ended.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const lost = ended.flatMap((one) => (one.status === "rejected" ? [String(one.reason)] : []));
  return { won, lost };
}

describe.each(CLOUDS)("the lock of a target on %s", (_, connect) => {
  it("is for one of two checkouts, the other is rejected by name; then it is free", async () => {
    const [ann, ben] = [await connect(), await connect()];

    const { won, lost } = await race([ann.lock!(...who("ann")), ben.lock!(...who("ben"))]);

    expect(won).toHaveLength(1);
    expect(lost).toEqual([expect.stringMatching(/in progress: (ann|ben)@checkout \(svc deploy up, first\)/)]);
    const [winner] = /(ann|ben)@/.exec((await ann.lockedBy!())!.holder)!;
    expect(lost[0]).toContain(winner);
    await won[0]!();
    expect(await ann.lockedBy!()).toBeUndefined();
    const release = await ben.lock!(...who("ben"));
    await release();
  });

  it("is renewed by its own run alone, and a run that comes back late does not change the next lock", async () => {
    const [ann, ben] = [await connect(), await connect()];
    const renewals: (() => Promise<boolean>)[] = [];
    const leased = (id: string, breakLock = false) => {
      const [holder, request] = who(id, 1800, breakLock);
      return [
        holder,
        { ...request, onLease: (renew: () => Promise<boolean>) => void renewals.push(renew) },
      ] as const;
    };

    await ann.lock!(...leased("ann"));
    const first = await renewals[0]!();
    const release = await ben.lock!(...leased("ben", true));
    const late = await renewals[0]!();
    const own = await renewals[1]!();
    const holder = await ann.lockedBy!();
    await release();
    const gone = await renewals[1]!();

    expect([first, late, own, gone]).toEqual([true, false, true, false]);
    expect(holder?.id).toBe("ben");
    expect(await ann.lockedBy!()).toBeUndefined();
  });

  it("is taken over by one of two where its holder is over its time, and broken where that is wanted", async () => {
    const [ann, ben, cleo] = [await connect(), await connect(), await connect()];
    await ann.lock!(...who("ann", -1));

    const { won, lost } = await race([ben.lock!(...who("ben")), cleo.lock!(...who("cleo"))]);
    const release = await ann.lock!(...who("eve", 1800, true));

    expect(won).toHaveLength(1);
    expect(lost).toHaveLength(1);
    await won[0]!();
    await expect(cleo.lock!(...who("dan"))).rejects.toThrow(/eve@checkout/);
    await release();
  });
});

const ELSEWHERE: readonly [string, () => Promise<PlatformSession>, () => string[]][] = [
  [
    "cloud-run",
    async () => cloudRun.connect({ ...google.target(), region: "mars-north1" }, google.tools()),
    () => google.emulator.recorder.changes,
  ],
  [
    "aws-app-runner",
    async () => appRunner.connect(aws.target({}, "eu-north-1"), aws.tools()),
    () => aws.cloud.recorder.changes,
  ],
];

it.each(ELSEWHERE)(
  "a lock in a region that %s does not have is refused before it is written",
  async (_, connect, changes) => {
    const before = changes();
    const session = await connect();

    const refused = session.lock!(...who("ann"));

    await expect(refused).rejects.toMatchObject({
      ...{ code: "preflight", outcome: "Nothing was changed" },
      fix: expect.stringContaining("--region"),
    });
    expect(changes()).toEqual(before);
  },
);

it("no call of a lock violates the contract of its cloud", () => {
  expect([...aws.cloud.recorder.violations, ...google.emulator.recorder.violations]).toEqual([]);
});
