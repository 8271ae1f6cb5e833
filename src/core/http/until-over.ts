import { ServiceError } from "../base/errors.ts";

/** A response that was waited for is not for a caller who may no longer be here. */
export function noLongerValid(): ServiceError {
  return new ServiceError("unauthorized", "The key or the sign-in was removed or has expired meanwhile", {
    detail: "Ask an administrator of the service for a new one.",
  });
}

/**
 * The same response, whose body ends when `over` fires: events as if there were no more, anything else broken off, so that a
 * part is not taken for the whole. What makes events continues: a client that loses its stream has cancelled nothing.
 */
export function untilOver(response: Response, over: AbortSignal): Response {
  const { body, headers, status, statusText } = response;
  if (!body || over.aborted) return response;
  const isEvents = headers.get("content-type")?.startsWith("text/event-stream") === true;
  const reader = body.getReader();
  let end = (): void => {};
  const forget = (): void => over.removeEventListener("abort", end);
  const ended = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        end = () => {
          if (isEvents) return controller.close();
          controller.error(noLongerValid());
          reader.cancel().catch(() => {});
        };
        over.addEventListener("abort", end, { once: true });
      },
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (over.aborted) return;
          if (!done) return controller.enqueue(value);
          forget();
          controller.close();
        } catch (error) {
          forget();
          throw error;
        }
      },
      cancel(reason) {
        forget();
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(ended, { headers, status, statusText });
}
