/** Module hooks (node:module, register) that write the address of every module that is loaded to `$TRACE`. */
export const LOADER = `
import { appendFileSync } from "node:fs";
export async function load(url, context, next) {
  appendFileSync(process.env.TRACE, url + "\\n");
  return next(url, context);
}`;
