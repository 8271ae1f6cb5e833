import { environmentOf } from "../cloud/listed.ts";
import type { Context } from "./context.ts";
import type { Service } from "./service-types.ts";

/** The environments of this base name in the project and region. */
export async function listServices(context: Context) {
  const google = await context.google();
  const found: { environment: string; since: string | undefined }[] = [];
  const pages = google.pages<{ services?: readonly Service[] }>("run", `/v2/${context.location}/services`, {
    pageSize: 100,
  });
  for await (const { services = [] } of pages)
    for (const { labels, updateTime } of services) {
      const environment = environmentOf(labels, context.target);
      if (environment !== undefined) found.push({ environment, since: updateTime });
    }
  return found;
}
