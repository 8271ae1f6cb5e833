import * as v from "valibot";

/** The full name of a role of IAM. */
export const ROLE_ARN = v.regex(
  /^arn:[\w-]+:iam::\d{12}:role\/[\w+=,.@/-]+$/,
  "must be such as arn:aws:iam::123456789012:role/name",
);
