import { ServiceError } from "../../errors.ts";

/** A file of the store is not as it was written. */
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
        "Restore the file from a backup. `svc store verify` lists every damaged line. After an edit by hand on purpose, " +
        "`svc store reseal` accepts the files as they are.",
    },
  );
}
