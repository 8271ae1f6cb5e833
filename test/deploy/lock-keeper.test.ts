import { expect, it, onTestFinished } from "vitest";
import type { DeployError } from "../../src/deploy/errors.ts";
import { createLockKeeper, LEASE } from "../../src/deploy/lock-keeper.ts";

/** A keeper by a clock that is advanced, and what it reported. */
function keeping(renew: () => Promise<boolean>) {
  let time = 0;
  const losses: DeployError[] = [];
  const keeper = createLockKeeper(
    () => new Date(time),
    (error) => losses.push(error),
  );
  onTestFinished(() => keeper.stop());
  keeper.keep(renew, new Date(0));
  const after = async (milliseconds: number) => {
    time += milliseconds;
    return keeper.beat();
  };
  return { after, losses };
}

it("a lock is renewed while its run works, and not at each call", async () => {
  let renewals = 0;
  const { after, losses } = keeping(async () => ++renewals > 0);

  for (let second = 0; second < 1800; second += 5) await after(5000);

  expect(losses).toEqual([]);
  expect(renewals).toBe(30);
});

it("a run whose lock somebody else has changes nothing more", async () => {
  const { after, losses } = keeping(async () => false);

  await expect(after(LEASE / 2)).rejects.toMatchObject({
    code: "interrupted",
    detail: expect.stringMatching(/Another run/),
  });
  await expect(after(0)).rejects.toMatchObject({ code: "interrupted" });

  expect(losses).toHaveLength(1);
});

it("a machine that slept for longer than the lease does not renew what others may have taken over", async () => {
  let renewals = 0;
  const { after } = keeping(async () => ++renewals > 0);

  await expect(after(LEASE + 1)).rejects.toMatchObject({ code: "interrupted" });

  expect(renewals).toBe(0);
});

it("renewals that fail are repeated, until the lease is over", async () => {
  let isDown = true;
  const { after } = keeping(async () => {
    if (isDown) throw new Error("no response");
    return true;
  });

  await after(LEASE / 2);
  isDown = false;
  await after(LEASE / 4);
  isDown = true;
  await after(LEASE - 1);
  const late = after(2);

  await expect(late).rejects.toMatchObject({ code: "interrupted" });
});

it("a renewal that pauses itself does not wait for itself", async () => {
  const { after, losses } = keeping(async () => {
    await after(1000);
    return true;
  });

  await after(LEASE / 2);

  expect(losses).toEqual([]);
});
