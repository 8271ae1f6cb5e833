import * as v from "valibot";
import { OPENAI_ERRORS } from "../openai-errors.ts";
import { routesOf } from "../topic-routes.ts";

/** A route for clients of OpenAI, with errors as they read them. Parameters that it does not know are ignored. */
export const openAiRoute = routesOf({
  ...{ auth: "key", tag: "OpenAI-compatible", errors: OPENAI_ERRORS, narrows: true },
  query: v.looseObject({}),
});
