import type { StandardSchemaV1 } from "@standard-schema/spec";
import type * as v from "valibot";
import { type NamesOf, refuseUnknown } from "../base/refuse-unknown.ts";

/**
 * Schema of a command's options: defines the flags, their help, validation and types. An entry `minInstances`
 * is `--min-instances`; boolean entries take no value, and those that are true by default are written
 * `--no-…`; array entries may be repeated; `v.description` is the help and `v.metadata({ value, alias })` the
 * name of the value and a letter.
 */
export type FlagsSchema = v.ObjectSchema<v.ObjectEntries, undefined>;

/** The same of another library with Standard Schema and JSON Schema, such as zod or ArkType: a flag for each property. */
export type AnyFlagsSchema = FlagsSchema | StandardSchemaV1<unknown, Record<string, unknown>>;

/** A command of the command line: `svc <name>` in a project whose service has the plugin. */
export interface PluginCommand<F extends AnyFlagsSchema = AnyFlagsSchema> {
  /** Name and arguments: `<id>` is required, `[file]` is optional, `[...names]` collects the rest. */
  readonly usage: string;
  readonly summary: string;
  readonly flags?: F;
  /** Full command lines, for the help. */
  readonly examples?: readonly string[];
  /**
   * Whether it calls the running service: adds the flags `--url`, `--key` and `--insecure`, which `connect` uses.
   * @default false
   */
  readonly connects?: boolean;
  /**
   * A number that it resolves with is the exit code, anything else is 0. A `ServiceError` is shown with its
   * `detail`, other errors with their stack; both end with 1.
   */
  run(input: PluginCommandInput<F>): unknown;
}

/** Input of a command. Arguments and text values arrive exactly as typed. */
export interface PluginCommandInput<F extends AnyFlagsSchema = AnyFlagsSchema> {
  readonly args: readonly string[];
  readonly flags: StandardSchemaV1.InferOutput<F>;
  /** The folder that paths are relative to. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Whether the session is interactive: input and output are a terminal, and `CI` is not set. */
  readonly interactive: boolean;
  /** The data folder of the project's service; the service is not started for this. */
  readonly dataDir: string;
  /** Writes a line of the result to standard output. */
  print(line: string): void;
  /** Writes a line that is not part of the result to standard error. */
  note(line: string): void;
  /** Prints rows as aligned columns under a header, as the lists of `svc` are; columns `status` and `state` have colors. */
  table(header: readonly string[], rows: readonly (readonly string[])[]): void;
  /** The running service, found as `svc job` finds it; for commands with `connects`. */
  connect(): Promise<ServiceConnection>;
}

/** Calls a running service with its key; a failure keeps the service's own message. */
export interface ServiceConnection {
  /** Its address, with its API prefix; paths are relative to it. */
  readonly url: string;
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body: unknown): Promise<T>;
  delete<T>(path: string): Promise<T>;
}

const NAMES: NamesOf<PluginCommand> = {
  ...{ usage: true, summary: true, flags: true, examples: true, connects: true, run: true },
};

/** Defines a command with inferred option types. */
export function defineCommand<F extends AnyFlagsSchema = v.ObjectSchema<Record<never, never>, undefined>>(
  command: PluginCommand<F>,
): PluginCommand {
  refuseUnknown(command, NAMES, `defineCommand: command "${command.usage}"`);
  return command as unknown as PluginCommand;
}
