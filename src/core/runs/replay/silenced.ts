import type { Logger } from "../../base/log.ts";

/** A log that takes no lines while a replay makes the handler write those again that it has written before. */
export function silenced(log: Logger, isSilent: () => boolean): Logger {
  return {
    debug: (message, fields) => isSilent() || log.debug(message, fields),
    info: (message, fields) => isSilent() || log.info(message, fields),
    warn: (message, fields) => isSilent() || log.warn(message, fields),
    error: (message, fields) => isSilent() || log.error(message, fields),
    with: (fields) => silenced(log.with(fields), isSilent),
  };
}
