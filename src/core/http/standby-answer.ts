import { ServiceError } from "../base/errors.ts";
import { VERSION } from "./service-state.ts";

/** The part of a service that waits to take its store over. */
export interface Waiting {
  /** Makes it take over. */
  wake(): void;
  /** Answers a request once that is done. */
  answer(request: Request): Promise<Response>;
  readonly clock: () => Date;
  /** Seconds since the start. */
  uptime(): number;
  readonly release: string | undefined;
}

/**
 * Answers while another instance has the store, which any request takes over except one for the health: reads wait for that,
 * and others are refused with the advice to retry.
 */
export function answerInStandby(request: Request, waiting: Waiting): Response | Promise<Response> {
  if (new URL(request.url).pathname === "/.well-known/health") {
    return Response.json({
      status: "healthy",
      timestamp: waiting.clock().toISOString(),
      version: VERSION,
      uptime: waiting.uptime(),
      release: waiting.release,
      detail: "Standby: another instance has the store",
    });
  }
  waiting.wake();
  if (request.method === "GET" || request.method === "HEAD") return waiting.answer(request);
  const error = new ServiceError("unavailable", "This instance is taking over", {
    detail: "Retry after a second.",
  });
  return Response.json(error.toResponse(waiting.clock()), {
    status: error.status,
    headers: { "retry-after": "1" },
  });
}
