import { environmentOf } from "../cloud/listed.ts";
import type { Context } from "./context.ts";
import type { Service } from "./service-types.ts";

interface Page {
  readonly services?: readonly Service[];
  readonly nextPageToken?: string;
}

/** The environments of this base name in the project and region. */
export async function listServices(context: Context) {
  const google = await context.google();
  const found: { environment: string; since: string | undefined }[] = [];
  let pageToken: string | undefined;
  do {
    const page: Page = await google.get<Page>("run", `/v2/${context.location}/services`, {
      pageSize: 100,
      pageToken,
    });
    for (const { labels, updateTime } of page.services ?? []) {
      const environment = environmentOf(labels, context.target);
      if (environment !== undefined) found.push({ environment, since: updateTime });
    }
    pageToken = page.nextPageToken || undefined;
  } while (pageToken !== undefined);
  return found;
}
