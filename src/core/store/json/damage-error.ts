import { ServiceError } from "../../base/errors.ts";

/** What is wrong with a file that is too short. */
export function missingBytes(count: number): string {
  return count === 1 ? "1 byte is missing" : `${count} bytes are missing`;
}

/** A file of the store is damaged. */
export function damageError(where: {
  file: string;
  byte: number;
  line?: number;
  what: string;
}): ServiceError {
  const line = where.line === undefined ? "" : `line ${where.line}, `;
  return new ServiceError(
    "storage_error",
    `${where.file} is damaged at ${line}byte ${where.byte}: ${where.what}`,
    {
      detail:
        "Restore a backup, or run `svc store repair`: it keeps the intact data, reports what is lost, and holds the affected jobs. " +
        "`svc store verify` lists every damaged line. To edit data, use `svc store export` and `import`; do not edit these files.",
    },
  );
}
