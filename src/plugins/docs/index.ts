import * as v from "valibot";
import { defineRoute, type Router } from "../../core/http/route.ts";
import { VERSION } from "../../core/http/service-state.ts";
import { definePlugin, type Plugin } from "../../core/service/plugin.ts";
import { ROUTER } from "../../core/service/tokens.ts";
import { type Asset, Assets, answerAsset, toAsset } from "./assets.ts";
import type { DocumentInfo } from "./document.ts";

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>API of this agent control service</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<main id="api"></main>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;

export interface DocsOptions {
  /** Whom users of the API write to: a name, an address of a page, an email address. @default none */
  readonly contact?: { readonly name?: string; readonly url?: string; readonly email?: string };
  /** License of the API: its name, and its SPDX identifier or an address. @default MIT, the license of this package */
  readonly license?: { readonly name: string; readonly identifier?: string; readonly url?: string };
}

const UrlSchema = v.pipe(v.string(), v.url("must be a URL"));
const OptionsSchema = v.strictObject({
  contact: v.optional(
    v.strictObject({
      name: v.optional(v.string()),
      url: v.optional(UrlSchema),
      email: v.optional(v.pipe(v.string(), v.email("must be an email address"))),
    }),
  ),
  license: v.optional(
    v.pipe(
      v.strictObject({ name: v.string(), identifier: v.optional(v.string()), url: v.optional(UrlSchema) }),
      v.check(({ identifier, url }) => !identifier || !url, "has an identifier or a url, not both"),
    ),
    { name: "MIT", identifier: "MIT" },
  ),
});

/**
 * The OpenAPI document at `/openapi.json` and its page at `/docs`, generated from the routes. Every service has it; with
 * options, it replaces that one.
 *
 * @example
 * createServer({ agents: [auditor], plugins: [docs({ contact: { email: "api@example.com" } })] });
 */
export const docs = definePlugin({
  name: "docs",
  options: OptionsSchema,
  setup({ options, get }) {
    const router = get(ROUTER);
    let document: { readonly of: number; readonly asset: Promise<Asset> } | undefined;
    const assets = new Assets(new URL("../../templates/public/swagger/", import.meta.url));
    const shared = { method: "GET", auth: "none", tag: "Documentation" } as const;
    router.add(
      defineRoute({
        ...shared,
        path: "/openapi.json",
        needs: "nothing",
        summary: "This document",
        description: "The routes of this service as OpenAPI 3.1, including those of plugins.",
        responses: { 200: { description: "OpenAPI 3.1", schema: v.record(v.string(), v.unknown()) } },
        handler: ({ event }) => {
          const of = router.routes.length;
          if (document?.of !== of) document = { of, asset: makeDocument(router, options) };
          return document.asset.then((asset) => answerAsset(asset, event, "no-cache"));
        },
      }),
    );
    router.add(
      defineRoute({
        ...shared,
        path: "/docs",
        needs: "nothing",
        summary: "The API as an interactive page",
        hidden: true,
        responses: { 200: { description: "A page", contentType: "text/html" } },
        handler: () => new Response(PAGE, { headers: pageHeaders() }),
      }),
    );
    router.add(
      defineRoute({
        ...shared,
        path: "/docs/{file}",
        needs: "nothing",
        summary: "A file of the page",
        hidden: true,
        params: v.object({ file: v.picklist(["swagger-ui.css", "swagger-ui-bundle.js", "start.js"]) }),
        responses: { 200: { description: "The file", contentType: "text/javascript" } },
        handler: ({ params, event }) => assets.serve(params.file, event),
      }),
    );
  },
}) as (options?: DocsOptions) => Plugin;

/** Generated on the first request: a service starts faster without it. */
async function makeDocument(
  router: Router,
  about: Pick<DocumentInfo, "contact" | "license">,
): Promise<Asset> {
  const { createDocument } = await import("./document.ts");
  const document = createDocument(router.routes, {
    title: "Agent control service",
    version: VERSION,
    description: "Hosts agents, runs their jobs and keeps their cases.",
    ...about,
  });
  return toAsset(Buffer.from(JSON.stringify(document)), "application/json; charset=utf-8");
}

function pageHeaders(): Record<string, string> {
  return {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
  };
}
