import type { PlatformLoader } from "../deploy/platform.ts";
import type { Paint } from "./paint.ts";

/** Everything a command uses; it touches nothing else of the process. */
export interface CliContext {
  /** The arguments of the whole command line. */
  readonly argv: readonly string[];
  /** Program and arguments that run this command-line tool again, without its arguments. */
  readonly self: readonly string[];
  /** Folder that paths are relative to. */
  readonly cwd: string;
  /**
   * The variables that the program was started with, as a copy: a controller that is loaded has the service's secrets
   * removed from the environment of the process, which no command reads.
   */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Colors for what is printed and for what is noted. @default none */
  readonly paint?: { readonly print: Paint; readonly note: Paint };
  /** Writes a line of the result to standard output. */
  readonly print: (line: string) => void;
  /** Writes a part of a line to standard output; absent where only whole lines can be written. */
  readonly write?: ((text: string) => void) | undefined;
  /** Writes a line that is not part of the result to standard error. */
  readonly note: (line: string) => void;
  /** Whether the session is interactive: input and output are a terminal, and `CI` is not set. */
  readonly interactive: boolean;
  /** Standard error as a screen, if it supports cursor movement. */
  readonly terminal?: Terminal | undefined;
  /** Deploy targets that come with the package. */
  readonly platforms: Readonly<Record<string, PlatformLoader>>;
}

/** A screen: what is written to it may move the cursor. */
export interface Terminal {
  write(text: string): void;
  columns(): number;
}
