import type { StoreLogger } from "../store.ts";
import { constant } from "./sql-text.ts";

/**
 * Parts of a table: with the default of a fifth, a table of a million jobs would have 200,000 dead rows before they are
 * removed, and its plans would be as old.
 */
const SETTINGS = {
  autovacuum_vacuum_scale_factor: 0.02,
  autovacuum_vacuum_insert_scale_factor: 0.05,
  autovacuum_analyze_scale_factor: 0.02,
};
/** How long a table may be busy with something else, such as a vacuum by hand; the next start sets it then. */
const WAIT = "1s";

/**
 * Has the database remove dead rows of the store's tables early. Tables for which somebody has set one of the settings stay as they
 * are. It stops no reads and no writes, and the store works without it: a failure is only reported.
 */
export async function vacuumOften(
  schema: string,
  { run, log }: { readonly run: (text: string) => Promise<unknown>; readonly log: StoreLogger },
): Promise<void> {
  const settings = Object.entries(SETTINGS).map(([name, value]) => `${name} = ${value}`);
  try {
    await run(`do $$ declare one regclass; begin
      perform set_config('lock_timeout', '${WAIT}', true);
      for one in select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = ${constant(schema)} and c.relkind = 'r'
          and not exists (select 1 from unnest(c.reloptions) o where o like 'autovacuum%')
        order by c.oid
      loop execute format('alter table %s set (${settings.join(", ")})', one); end loop;
    end $$`);
  } catch (error) {
    const reason = (error as Error).message;
    log.warn(
      "the tables could not be set to lose their dead rows early: they grow more than they need, unless autovacuum is set for them by hand",
      { reason },
    );
  }
}
