#!/usr/bin/env bash
# All that the docs quote from a GPU, one after another; what each program prints is kept in the folder given.
#
#   bash benchmarks/on_a_gpu.sh figures              # all parts
#   bash benchmarks/on_a_gpu.sh figures bon ppo      # only these parts
#
# `steer` reads ACL titles from where PALATE_DATA points; the others need no data. `vllm` is done only when it is named,
# since vLLM has to be installed.
# Run the same line again to resume: runs are kept in FOLDER/runs, and a part that is done is not done again.
set -uo pipefail

folder=${1:?"usage: bash benchmarks/on_a_gpu.sh FOLDER [PART ...]"}
shift
parts=("${@:-bon guide serve steer ppo scoring sampling time}")
mkdir -p "$folder"
export PYTHONUNBUFFERED=1
python=${PYTHON:-python}
failed=0

part() { # NAME COMMAND ...: run it unless it is done, and keep what it prints
    local file="$folder/$1.txt" started=$SECONDS
    shift
    [ -e "$file" ] && return
    echo "\$ $*" | tee "$file.part"
    if "$@" 2>&1 | tee -a "$file.part"; then
        echo "($((SECONDS - started)) s)" | tee -a "$file.part"
        mv "$file.part" "$file"
    else
        failed=1
    fi
}

palate() { "$python" -m palate "$@"; }
ppo_tuned() { # a learning rate for each reward on one seed, then other users at these rates
    local ours=("$python" benchmarks/ppo_sim.py --batch-tokens 32768 --at-once 3)
    "${ours[@]}" --out "$folder/ppo-tuning" --tune "$folder/rates.json" &&
        "${ours[@]}" --out "$folder/ppo" --rates "$folder/rates.json" --steps 36 --seeds 200 201 \
            --picture "$folder/ppo-curves.svg"
}
model=smollm2,device=cuda
views=(--view none --view posts:5 --view swapped)

for name in ${parts[*]}; do
    case $name in
        bon) part bon "$python" benchmarks/best_of_n.py --device cuda ;;
        guide) part guide "$python" benchmarks/guide.py --device cuda --dtype bfloat16 --texts 32 ;;
        serve) part serve "$python" benchmarks/serve.py --device cuda --shape smollm2 --requests 2048 ;;
        scoring)
            part scoring-smollm2 "$python" benchmarks/scoring.py --device cuda --shape smollm2 --asks 32 --repeats 5
            part scoring-8b "$python" benchmarks/scoring.py --device cuda --shape 8b --asks 8 --repeats 3 --budget 16384
            ;;
        time) part time "$python" benchmarks/gpu_time.py --device cuda ;;
        vllm) part vllm "$python" benchmarks/against_vllm.py --device cuda ;;
        sampling) part sampling "$python" benchmarks/sampling.py --random --device cuda --dtype bfloat16 --prompts 32 ;;
        steer)
            part titles-pairs palate data convert acl-titles "$folder/titles" --pairs --rejected-by "$model" \
                -n 8 --tokens 48 --limit 600
            part titles palate steer "$folder/titles" --policy "$model" --rm embedding --rm overlap \
                --rm "likelihood:$model" -n 16 --temperature 0.7 --tokens 48 --limit 150 "${views[@]}" \
                --in-context posts:3 --in-context swapped:posts:3 --out "$folder/runs"
            part titles-bon palate bon "$folder/titles" --policy "$model" --rm embedding --critic reference -n 8 \
                --temperature 0.7 --tokens 48 --limit 120 "${views[@]}" --out "$folder/runs"
            ;;
        ppo) part ppo ppo_tuned ;;
        *) echo "no part is called $name; there are bon, guide, serve, steer, ppo, scoring, sampling, time and vllm" >&2 && exit 2 ;;
    esac
done
exit $failed
