import type * as v from "valibot";
import type { ServiceError } from "../base/errors.ts";

/**
 * How the clients of a route read errors, where that is not an `ErrorResponse`: those of its handler, and those before it,
 * such as a wrong key or a body that is no JSON.
 */
export interface ErrorForm {
  /** The body, for the documentation. */
  readonly schema: v.GenericSchema;
  /** How the paths of its routes begin: what no route answers below has this form, too. @default their paths only */
  readonly below?: string;
  /** Status of an error, where the protocol has another one than the service. */
  status?(error: ServiceError): number;
  /** The error as a body; its texts have no known secrets. */
  toBody(error: ServiceError): unknown;
}

/** The text of an error for clients that show one text. */
export function inOneText({ message, detail }: Pick<ServiceError, "message" | "detail">): string {
  return detail === undefined ? message : `${message}. ${detail}`;
}
