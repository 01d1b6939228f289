// What the page asks its server.
import { rememberedToken } from "./preferences";

export const UNAUTHORIZED = 401;
export const FORBIDDEN = 403;

/** The server refuses: why, and after how many milliseconds it may be asked again. */
export class RefusedError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly pause = 0,
  ) {
    super(message);
  }
}

/** Raises where the server does not answer, or refuses: its message says why. */
export async function request(path: string, options: RequestInit): Promise<Response> {
  let response: Response;
  const token = rememberedToken();
  const headers = { ...options.headers, ...(token && { "Dovetail-Authorization": `Bearer ${token}` }) };
  try {
    response = await fetch(`v1alpha1/${path}`, { cache: "no-store", ...options, headers });
  } catch {
    throw new Error("the server of this page does not answer");
  }
  if (response.ok) return response;
  const refusal = (await response.json().catch(() => ({}))) as { message?: string };
  const message = refusal.message ?? `the server of this page answers with status ${response.status}`;
  const pause = Number(response.headers.get("Retry-After") ?? 0) * 1000;
  throw new RefusedError(response.status, token || response.status !== UNAUTHORIZED ? message : "", pause);
}

export const ask = async <Answer>(path: string, options: RequestInit): Promise<Answer> =>
  (await (await request(path, options)).json()) as Answer;
