import type { PlatformLoader } from "../deploy/platform.ts";

/** What a command works with; nothing else of the process is touched. */
export interface CliContext {
  /** The words of the whole command line. */
  readonly argv: readonly string[];
  /** Program and arguments that run this command line tool again, without its words. */
  readonly self: readonly string[];
  /** Folder that paths are relative to. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Writes a line of the result to standard output. */
  readonly print: (line: string) => void;
  /** Writes a line beside the result to standard error. */
  readonly note: (line: string) => void;
  /** Whether a person sits there: input and output are a terminal, and `CI` is not set. */
  readonly interactive: boolean;
  /** Standard error as a screen, where it is one that can be drawn on. */
  readonly terminal?: Terminal | undefined;
  /** Deploy targets that come with the package. */
  readonly platforms: Readonly<Record<string, PlatformLoader>>;
}

/** A screen: what is written to it may move the cursor. */
export interface Terminal {
  write(text: string): void;
  columns(): number;
}
