import { countOf } from "../core/base/count-of.ts";
import type { PackedContext } from "./build-context.ts";
import { DeployError } from "./errors.ts";
import { type Emit, inform } from "./events.ts";
import type { Finding } from "./platform.ts";

/**
 * Bytes above which a build's files are reported as large: each is sent to the builder, and ends up in the
 * image.
 */
const LARGE = 250 * 1024 * 1024;
const NAMED = 10;

/** Findings about a build's files before the build; rejects if one contains a private key. */
export function checkContext(context: PackedContext, emit: Emit): Finding[] {
  const { suspects, leftOut } = context;
  const keys = suspects.filter(({ privateKey }) => privateKey);
  const [first] = keys;
  if (first !== undefined)
    throw new DeployError(
      "preflight",
      `${keys.map(({ path }) => path).join(", ")}: ${first.kind} would be included in the image`,
      {
        detail: "Anyone who can pull the image can read every file in it",
        outcome: "Nothing was built",
        fix:
          `Add "${first.path}" to .dockerignore and pass the key as a secret (docs/deploy.md). ` +
          `If the image needs this file, add the line "!${first.path}" instead`,
      },
    );
  if (leftOut.length > 0) {
    const file = leftOut.find(({ path, why }) => why === "credential" && !path.endsWith("/"));
    inform(
      emit,
      `Excluded from the image by name, as credentials or data: ${named(leftOut.map(({ path }) => path))}`,
      file && `To include a file, add it to .dockerignore: "!${file.path}"`,
    );
  }
  const findings: Finding[] = suspects.map(({ path, kind }) => ({
    level: "warning",
    subject: "Secrets",
    message: `${path} seems to contain ${kind}, and is included in the image`,
    fix: `Add "${path}" to .dockerignore, or the line "!${path}" if it is meant to be included`,
  }));
  if (context.size > LARGE) findings.push(tooLarge(context));
  for (const { level, subject, message, fix } of findings)
    emit({
      type: "notice",
      level: level === "ok" ? "info" : "warning",
      message: `${subject}: ${message}`,
      ...(fix ? { fix } : {}),
    });
  return findings;
}

/** Count and size of a build's files, as text. */
export function sizeOf({ files, size }: PackedContext): string {
  return `${countOf(files.length, "file")}, ${bytes(size)}`;
}

function tooLarge({ files, size }: PackedContext): Finding {
  const largest = [...files].sort((a, b) => b.size - a.size).slice(0, 3);
  return {
    level: "warning",
    subject: "Size",
    message: `the image is built from ${bytes(size)}: ${largest.map((file) => `${file.path} ${bytes(file.size)}`).join(", ")}`,
    fix: "Add files that the service does not need to .dockerignore",
  };
}

function named(paths: readonly string[]): string {
  const more = paths.length - NAMED;
  return [...paths.slice(0, NAMED), ...(more > 0 ? [`and ${more} more`] : [])].join(", ");
}

function bytes(size: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = Math.min(units.length - 1, size < 1000 ? 0 : Math.floor(Math.log10(size) / 3));
  const amount = size / 1000 ** power;
  return `${power === 0 || amount >= 100 ? Math.round(amount) : amount.toFixed(1)} ${units[power]}`;
}
