import { expect, it } from "vitest";
import { pruneImages } from "../../src/deploy/docker.ts";
import type { DeployTools, ExecResult } from "../../src/deploy/tools.ts";

const BUSY = "Error response from daemon: a prune operation is already running";

/** An engine that gives these results, one a call. */
function engine(...results: readonly { code: number; stderr: string }[]) {
  const left = [...results];
  const exec = async (): Promise<ExecResult> => ({ stdout: "", ...left.shift()! });
  const tools = { exec, sleep: async () => {} } as unknown as DeployTools;
  return { left, pruned: pruneImages(tools, "project=a") };
}

it("old images are removed once Docker has ended to remove those of somebody else", async () => {
  const { left, pruned } = engine(
    { code: 1, stderr: BUSY },
    { code: 1, stderr: BUSY },
    { code: 0, stderr: "" },
  );

  await pruned;

  expect(left).toEqual([]);
});

it("another failure to remove old images is reported immediately", async () => {
  const { left, pruned } = engine({ code: 1, stderr: "no space left" }, { code: 0, stderr: "" });

  await expect(pruned).rejects.toMatchObject({ detail: "no space left" });
  expect(left).toHaveLength(1);
});
