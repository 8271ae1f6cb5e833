type Env = Readonly<Record<string, string | undefined>>;

/** Which of the usual variables enable OpenTelemetry. */
export function wantsOtel(env: Env): { readonly traces: boolean; readonly metrics: boolean } {
  const off = env.OTEL_SDK_DISABLED?.toLowerCase() === "true";
  const wants = (signal: "TRACES" | "METRICS"): boolean =>
    !off &&
    env[`OTEL_${signal}_EXPORTER`] !== "none" &&
    Boolean(env.OTEL_EXPORTER_OTLP_ENDPOINT || env[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`]);
  return { traces: wants("TRACES"), metrics: wants("METRICS") };
}
