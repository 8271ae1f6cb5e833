import { spawn } from "node:child_process";
import { bundleChild } from "../../_bundle.ts";
import type { FlowPlatform } from "../flow/clouds.ts";
import type { Site } from "../flow/site.ts";
import type { ChildOptions } from "./child.ts";
import type { Command } from "./command.ts";

const FRONTS = [".run.app", ".ondigitalocean.app", ".awsapprunner.com", ".on.aws"];
const AWS = ["apprunner", "cloudwatch-logs", "ecr", "ecs", "iam", "secrets-manager", "sts"];
const PEERS = ["google-auth-library", ...AWS.map((name) => `@aws-sdk/client-${name}`)];

/** Whether the call of a killed run reached the provider, and then whether all it began ended before the next run. */
type Moment = "before" | "after" | "long after";

export interface Kill {
  readonly moment: Moment;
  /** Of the changes that the command makes, counted from 1. */
  readonly call: number;
}

/** What runs a command in a process of its own and kills that at a call which changes something; resolves with its signal. */
export async function killer() {
  const child = await bundleChild(new URL("child.ts", import.meta.url), PEERS);
  return async function runAndKill(
    flow: FlowPlatform,
    at: Site,
    command: Command,
    kill: Kill,
  ): Promise<NodeJS.Signals | null> {
    const options: ChildOptions = {
      platform: flow.name,
      command,
      fronts: FRONTS.flatMap((end) => {
        const front = at.cloud.frontFor(`x${end}`);
        return front === undefined ? [] : [[end, front] as const];
      }),
    };
    const { recorder } = at.cloud;
    const running = spawn(process.execPath, [child, JSON.stringify(options)], {
      env: { PATH: process.env.PATH ?? "" },
      stdio: ["ignore", "ignore", "inherit"],
    });
    const ended = new Promise<NodeJS.Signals | null>((resolve) =>
      running.once("close", (_, signal) => resolve(signal)),
    );
    const last = recorder.changes.length + kill.call;
    const killNow = async (_: unknown, count: number) => {
      if (count !== last) return false;
      running.kill("SIGKILL");
      await ended;
      return true;
    };
    if (kill.moment === "before") recorder.cutBefore = killNow;
    else recorder.afterChange = async (call, count) => void (await killNow(call, count));
    const signal = await ended;
    recorder.cutBefore = undefined;
    recorder.afterChange = undefined;
    return signal;
  };
}
