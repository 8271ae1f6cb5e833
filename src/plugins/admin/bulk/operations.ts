import { createHash, randomUUID } from "node:crypto";
import { type Actor, nameOf } from "../../../core/audit/caller.ts";
import { isServiceError, ServiceError } from "../../../core/base/errors.ts";
import type { Logger } from "../../../core/base/log.ts";
import type { Runner } from "../../../core/runs/runner.ts";

export type BulkAction = "stop" | "retry" | "continue" | "restart" | "delete";
export type BulkState = "preview" | "running" | "done" | "aborted";

/** An action on many entities: the selection is fixed at the preview, and executed as shown. */
export interface BulkOperation {
  readonly id: string;
  readonly kind: "jobs" | "cases";
  readonly action: BulkAction;
  readonly ids: readonly string[];
  /** Identifies exactly these ids and this action. */
  readonly hash: string;
  /** Their total cost, and how many entities over the limit matched. */
  readonly cost: number;
  readonly leftOut: number;
  readonly createdAt: string;
  /** The caller that previewed it: only they may run it. */
  readonly by: Actor;
  state: BulkState;
  done: number;
  /** Ids that could not be changed, with the reason. */
  readonly failures: Map<string, string>;
}

export interface BulkRequest {
  readonly kind: "jobs" | "cases";
  readonly action: BulkAction;
  readonly ids: readonly string[];
  readonly cost: number;
  readonly leftOut: number;
  readonly by: Actor;
}

/** Entities in one operation. */
export const MOST_ENTITIES = 10_000;
const KEPT = 50;
const KEPT_FAILURES = 100;
/** Entities changed concurrently: others use the store too. */
const AT_ONCE = 4;

/** Previews and runs of actions on many entities. */
export class BulkOperations {
  readonly #parts: { runner: () => Runner; clock: () => Date; log: Logger; onProgress: () => void };
  readonly #operations = new Map<string, BulkOperation>();
  #closed = false;

  constructor(parts: { runner: () => Runner; clock: () => Date; log: Logger; onProgress: () => void }) {
    this.#parts = parts;
  }

  /** Fixes the selection; nothing is changed yet. */
  preview(request: BulkRequest): BulkOperation {
    const operation: BulkOperation = {
      id: randomUUID(),
      ...request,
      hash: hashOf(request),
      createdAt: this.#parts.clock().toISOString(),
      state: "preview",
      done: 0,
      failures: new Map(),
    };
    for (const [id, known] of this.#operations) {
      if (this.#operations.size < KEPT) break;
      if (known.state !== "running") this.#operations.delete(id);
    }
    this.#operations.set(operation.id, operation);
    return operation;
  }

  get(id: string): BulkOperation {
    const operation = this.#operations.get(id);
    if (operation) return operation;
    throw new ServiceError("not_found", "Preview not found", {
      detail: "Previews are kept only while the service is running. Select the jobs or cases again.",
    });
  }

  /** Runs a preview in the background. The hash proves that it is the one that was shown. */
  run(id: string, hash: string, by: Actor): BulkOperation {
    const operation = this.mayRun(id, hash, by);
    operation.state = "running";
    this.#work(operation).catch((error: unknown) => {
      operation.state = "aborted";
      this.#parts.log.error("a bulk operation failed", { operation: id, error });
    });
    return operation;
  }

  /** The preview, if it may be run. */
  mayRun(id: string, hash: string, by: Actor): BulkOperation {
    const operation = this.get(id);
    if (nameOf(operation.by) !== nameOf(by)) {
      throw new ServiceError("forbidden", "Somebody else created this preview", {
        detail: "Create your own preview.",
      });
    }
    if (operation.hash !== hash) {
      throw new ServiceError("invalid_request", "The hash does not match this preview", {
        detail: "Reload the preview.",
      });
    }
    if (operation.state !== "preview") {
      throw new ServiceError("invalid_transition", `This operation is already ${operation.state}`);
    }
    return operation;
  }

  /** Aborts an operation after the entities that are currently being changed. */
  abort(id: string): BulkOperation {
    const operation = this.get(id);
    if (operation.state === "running" || operation.state === "preview") operation.state = "aborted";
    return operation;
  }

  close(): void {
    this.#closed = true;
  }

  async #work(operation: BulkOperation): Promise<void> {
    const { log, onProgress } = this.#parts;
    const { id, action, kind, ids, by } = operation;
    log.info("bulk operation started", { operation: id, action, kind, count: ids.length, by: nameOf(by) });
    let next = 0;
    const worker = async (): Promise<void> => {
      for (let at = next++; at < ids.length; at = next++) {
        if (operation.state !== "running" || this.#closed) return;
        await this.#change(operation, ids[at]!);
        operation.done++;
        onProgress();
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    if (operation.state === "running") operation.state = this.#closed ? "aborted" : "done";
    onProgress();
    const { state, done, failures } = operation;
    log.info("bulk operation ended", { operation: id, state, done, failed: failures.size, by: nameOf(by) });
  }

  async #change({ action, kind, failures, by }: BulkOperation, id: string): Promise<void> {
    const runner = this.#parts.runner();
    try {
      if (action === "stop") await runner.stop(id, by);
      else if (action === "retry") await runner.retry(id, "last_step", by);
      else if (action === "continue") await runner.continue(id, by);
      else if (action === "restart") await runner.retry(id, "start", by);
      else if (kind === "jobs") await runner.remove(id, by);
      else await runner.removeCase(id, by);
    } catch (error) {
      if (failures.size < KEPT_FAILURES)
        failures.set(id, isServiceError(error) ? error.message : "failed; see the log");
      if (!isServiceError(error)) this.#parts.log.error("a bulk change failed", { action, id, error });
    }
  }
}

function hashOf({ kind, action, ids }: BulkRequest): string {
  return createHash("sha256")
    .update([kind, action, ...ids].join("\n"))
    .digest("base64url")
    .slice(0, 22);
}
