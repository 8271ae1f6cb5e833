import { CloudError } from "../cloud/cloud-error.ts";

/** Whether AWS refused a call because the caller may not make it. */
export function isDenied(error: unknown): error is CloudError {
  return (
    error instanceof CloudError &&
    /AccessDenied|NotAuthorized|UnauthorizedOperation|AuthorizationError/i.test(error.code)
  );
}
