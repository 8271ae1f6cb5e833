import { messageOf } from "../core/base/error-text.ts";
import type { DeploymentPlan } from "../core/models/deployment.ts";

/** Steps of a deployment, in the order in which they come. */
export const STEPS = {
  preflight: "Check credentials and permissions",
  inspect: "Inspect the running service",
  plan: "Plan",
  beforeBuild: "Run hooks.beforeBuild",
  afterRelease: "Run hooks.afterRelease",
  code: "Check that the code can be loaded",
  files: "Write deployment files",
  prepare: "Prepare the platform",
  storage: "Prepare the bucket",
  build: "Build the image",
  push: "Push the image",
  send: "Send the image to the server",
  secrets: "Store secrets",
  releaseCommand: "Run the release command",
  release: "Release",
  url: "Set the public URL",
  health: "Wait for health",
  traffic: "Shift traffic",
  rollback: "Roll back",
  scale: "Scale to zero",
  remove: "Remove the service",
  dropSecrets: "Remove secrets",
  confirm: "Confirm",
  state: "Record the state",
  runtime: "Check Docker and the port",
  localSecrets: "Gather secrets",
  start: "Start the containers",
  drain: "Let running jobs end",
  endpoints: "Check the endpoints",
  stop: "Stop the containers",
} as const;
export type StepId = keyof typeof STEPS;

export type StepOutcome = "done" | "skipped" | "failed";

/** Progress events of the engine; the listener decides how to show them. */
export type DeployEvent =
  | { readonly type: "step"; readonly id: StepId; readonly title: string }
  | {
      readonly type: "end";
      readonly id: StepId;
      readonly outcome: StepOutcome;
      readonly note?: string;
      readonly ms: number;
    }
  | { readonly type: "report"; readonly message: string }
  | { readonly type: "output"; readonly line: string }
  | {
      readonly type: "notice";
      readonly level: "info" | "warning";
      readonly message: string;
      readonly fix?: string;
    }
  | { readonly type: "plan"; readonly plan: DeploymentPlan };

export type Emit = (event: DeployEvent) => void;

/** Reports what a person should know, with what to do where there is something. */
export function inform(emit: Emit, message: string, fix?: string): void {
  emit({ type: "notice", level: "info", message, ...(fix ? { fix } : {}) });
}

/** Reports what a person should not miss, with what to do where there is something. */
export function warn(emit: Emit, message: string, fix?: string): void {
  emit({ type: "notice", level: "warning", message, ...(fix ? { fix } : {}) });
}

/** Notes from a step's body, reported at its end. */
export interface StepNotes {
  note(text: string): void;
  /** Reports that there was nothing to do, and why. */
  skip(reason: string): void;
}

/** Runs one step between its two events. */
export async function step<T>(emit: Emit, id: StepId, body: (notes: StepNotes) => Promise<T>): Promise<T> {
  const begun = performance.now();
  let note: string | undefined;
  let outcome: StepOutcome = "done";
  emit({ type: "step", id, title: STEPS[id] });
  try {
    return await body({
      note: (text) => {
        note = text;
      },
      skip: (reason) => {
        outcome = "skipped";
        note = reason;
      },
    });
  } catch (error) {
    outcome = "failed";
    note = messageOf(error);
    throw error;
  } finally {
    emit({
      type: "end",
      id,
      outcome,
      ...(note === undefined ? {} : { note }),
      ms: performance.now() - begun,
    });
  }
}
