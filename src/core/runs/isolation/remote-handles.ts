import { callModel } from "../../agents/call-model.ts";
import type { FieldsInput } from "../../agents/fields-input.ts";
import { type FileData, type NewFileOptions, type OpenFile, openFile } from "../../agents/file-content.ts";
import type {
  AskOptions,
  CallOptions,
  JobHandle,
  ModelCall,
  ModelOptions,
  StepFunction,
  StepOptions,
} from "../../agents/run-context.ts";
import { getOrMake } from "../../base/get-or-make.ts";
import type { FileValue } from "../../models/file.ts";
import { mayBeLeft } from "../replay/call.ts";
import { assertChangeName } from "../replay/job-handle.ts";
import { assertOpens, fileStep } from "../replay/made-files.ts";
import type { GivenStep } from "../replay/step.ts";
import type { CallTarget, RemoteCall } from "./messages.ts";
import { PASSED, toSent } from "./passed-calls.ts";

/** Where the handles' calls go: what sends them to the service. */
export interface HandlePort {
  /** Makes a call; resolves with its result, or what `convert` makes of it. */
  call<T>(
    call: RemoteCall,
    parts: { readonly on: CallTarget; readonly convert?: ((value: unknown) => unknown) | undefined },
  ): Promise<T>;
  step<T>(given: GivenStep<T>, on: CallTarget): Promise<T>;
  ask(name: string | undefined, options: AskOptions<FieldsInput>, on: CallTarget): Promise<never>;
  changed(name: string): boolean;
  /** The bytes of a file of the job, which the service reads. */
  read(file: FileValue): AsyncIterable<Uint8Array>;
}

/** The handle of a job, in its agent's process. */
export function remoteJob(port: HandlePort, job: Pick<JobHandle, "id" | "context">): JobHandle {
  return new RemoteJob(port, job) as unknown as JobHandle;
}

/**
 * A handle of a job, a case or a child in its agent's process. The calls in `PASSED` are made by the handle in the
 * service's process; what needs a function of the agent, or an answer immediately, is here.
 */
class RemoteHandle {
  readonly id: string;
  protected readonly port: HandlePort;
  protected readonly on: CallTarget;
  #made: Map<string, Promise<unknown>> | undefined;

  constructor(port: HandlePort, on: CallTarget) {
    this.id = on.id;
    this.port = port;
    this.on = on;
  }

  pass(name: string, given: readonly unknown[]): Promise<unknown> {
    const { once } = PASSED[this.on.kind][name]!;
    if (once === undefined) return this.#pass(name, given);
    this.#made ??= new Map();
    return getOrMake(this.#made, `${name} ${once(given as never)}`, () => this.#pass(name, given));
  }

  #pass(name: string, given: readonly unknown[]): Promise<unknown> {
    const { port, on } = this;
    const { gives, send = () => given } = PASSED[on.kind][name]!;
    try {
      const args = send(given as never, this.id).map(toSent);
      const convert = gives && ((made: unknown) => handleOf(port, { kind: gives, ...(made as Made) }));
      return port.call({ op: "pass", name, args }, { on, convert });
    } catch (error) {
      return mayBeLeft(Promise.reject(error));
    }
  }
}

/** What can have steps. */
class RemoteScope extends RemoteHandle {
  step<T>(name: string, fn: StepFunction<T>, options: StepOptions = {}): Promise<T> {
    return this.port.step({ name, fn, options }, this.on);
  }

  model<Request, Answer>(
    ...given: [name: string, Request, ModelCall<Request, Answer>, options?: ModelOptions<Answer>]
  ): Promise<Answer> {
    return callModel({ step: this.step.bind(this), open: (file) => this.opened(file) }, ...given);
  }

  protected opened(file: FileValue): OpenFile {
    assertOpens(file);
    return openFile(file, () => this.port.read(file));
  }
}

class RemoteJob extends RemoteScope {
  readonly context: JobHandle["context"];

  constructor(port: HandlePort, { id, context }: Pick<JobHandle, "id" | "context">) {
    super(port, { kind: "job", id });
    this.context = context;
  }

  changed(name: string): boolean {
    assertChangeName(name);
    return this.port.changed(name);
  }

  file(name: string, data: FileData, options?: NewFileOptions & CallOptions): Promise<FileValue> {
    return this.step(...fileStep(name, data, options));
  }

  open(file: FileValue): OpenFile {
    return this.opened(file);
  }
}

class RemoteCase extends RemoteScope {
  readonly ref: string;

  constructor(port: HandlePort, id: string, ref: string) {
    super(port, { kind: "case", id });
    this.ref = ref;
  }

  ask(given: string | AskOptions<FieldsInput>, options?: AskOptions<FieldsInput>): Promise<never> {
    if (typeof given === "string") return this.port.ask(given, options!, this.on);
    return this.port.ask(undefined, given, this.on);
  }
}

class RemoteChild extends RemoteHandle {}

/** What the service says of a handle that it has made; a child has no ref. */
interface Made {
  readonly id: string;
  readonly ref: string;
}

function handleOf(port: HandlePort, { kind, id, ref }: Made & { readonly kind: "case" | "child" }) {
  return kind === "case" ? new RemoteCase(port, id, ref) : new RemoteChild(port, { kind, id });
}

for (const [kind, { prototype }] of [
  ["job", RemoteJob],
  ["case", RemoteCase],
  ["child", RemoteChild],
] as const) {
  for (const name of Object.keys(PASSED[kind])) {
    const value = function (this: RemoteHandle, ...given: unknown[]) {
      return this.pass(name, given);
    };
    Object.defineProperty(prototype, name, { value });
  }
}
